"""A target and maybe a draft that belong together: opened and compared, but not loaded."""

from dataclasses import dataclass

from engine.errors import ModelError
from engine.loading.preparation import source_fingerprint
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.gguf.header import read_lists
from engine.protocol.options import EMBEDDED, NO_DRAFT, SELF_DRAFT, LoadOptions
from engine.protocol.sentences import say
from engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class PairIdentity:
    """What a pair is stored under. A target that drafts for itself is a pair of its own.

    `by_folders` costs nothing, and is enough for a guess. `by_files` reads the head of every file: what is stored under
    it is void once a file has changed.
    """

    target: Checkpoint
    draft: Checkpoint | None
    options: LoadOptions

    def by_folders(self, budget: int, method: str = "auto") -> str:
        """The pair's folders and weights, with the budget and the method that a figure is about.

        Plans are for SpecExec, which `auto` is made of; the other methods' figures are kept apart.
        """
        drafting = str(self.draft.path) if self.draft else SELF_DRAFT if self.options.draft == SELF_DRAFT else ""
        others = () if method in ("auto", "specexec") else (method,)
        return " | ".join((str(self.target.path), drafting, self.options.weights, str(budget or "auto"), *others))

    def by_files(self) -> dict[str, str]:
        """The states of the target's and the draft's files (`self` or `none` without one), and the weights.

        Raises `ModelError` if a file is gone.
        """
        own = SELF_DRAFT if self.options.draft == SELF_DRAFT else NO_DRAFT
        return {
            "target": source_fingerprint(self.target),
            "draft": source_fingerprint(self.draft) if self.draft else own,
            "weights": self.options.weights,
        }


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair that was opened; `draft` None: there is no draft model of its own."""

    options: LoadOptions
    target: Checkpoint
    draft: Checkpoint | None
    tokenizer: Tokenizer

    @property
    def drafts_itself(self) -> bool:
        """Whether a copy of the target's own layers is the draft."""
        return self.options.draft == SELF_DRAFT

    @property
    def identity(self) -> PairIdentity:
        """The identity of the pair."""
        return PairIdentity(self.target, self.draft, self.options)


def open_pair(options: LoadOptions) -> Pair:
    """Open both folders and compare their vocabularies; cheap. Raises `InputError` or `ModelError`."""
    options.check()
    target = open_checkpoint(options.target, role="target")
    tokenizer = open_tokenizer(target)
    source = draft_source(options)
    if not source:
        return Pair(options, target, None, tokenizer)
    draft = open_checkpoint(source, role="draft")
    if not open_tokenizer(draft).same_as(tokenizer):
        raise ModelError(
            say(
                "The draft '{draft}' has another tokenizer than the target '{target}'.",
                draft=draft.name,
                target=target.name,
            ),
            say("Choose a draft of the same family, or no draft."),
        )
    return Pair(options, target, draft, tokenizer)


def open_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer that came with a checkpoint; raises `ModelError` when there is none that can be used."""
    if checkpoint.metadata:
        return Tokenizer.from_gguf(read_lists(checkpoint.metadata), checkpoint.name)
    return Tokenizer.open(checkpoint.folder)


def draft_source(options: LoadOptions) -> str:
    """The source of the draft model, with `auto` resolved; empty without one, also if the target drafts for itself."""
    if options.draft == "auto":
        return EMBEDDED if options.target == EMBEDDED else ""
    return "" if options.draft in (NO_DRAFT, SELF_DRAFT) else options.draft
