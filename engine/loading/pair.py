"""A target and maybe a draft that belong together: opened and compared, but not loaded."""

from dataclasses import dataclass

from engine.errors import ModelError
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.protocol.options import EMBEDDED, NO_DRAFT, SELF_DRAFT, LoadOptions
from engine.protocol.sentences import say
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Pair:
    """What `open_pair` found; `draft` None: no model of its own speculates."""

    options: LoadOptions
    target: Checkpoint
    draft: Checkpoint | None
    tokenizer: Tokenizer

    @property
    def drafts_itself(self) -> bool:
        """Whether a copy of the target's own layers is the draft."""
        return self.options.draft == SELF_DRAFT


def open_pair(options: LoadOptions) -> Pair:
    """Open both folders and compare their vocabularies; cheap. Raises `InputError` or `ModelError`."""
    options.check()
    target = open_checkpoint(options.target, role="target")
    tokenizer = Tokenizer.open(target.folder)
    draft_source = options.draft
    if draft_source == "auto":
        draft_source = EMBEDDED if options.target == EMBEDDED else NO_DRAFT
    if draft_source in (NO_DRAFT, SELF_DRAFT):
        return Pair(options, target, None, tokenizer)
    draft = open_checkpoint(draft_source, role="draft")
    if not Tokenizer.open(draft.folder).same_as(tokenizer):
        raise ModelError(
            say(
                "The draft '{draft}' has another tokenizer than the target '{target}'.",
                draft=draft.name,
                target=target.name,
            ),
            say("Choose a draft of the same family, or no draft."),
        )
    return Pair(options, target, draft, tokenizer)
