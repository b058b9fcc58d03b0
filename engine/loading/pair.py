"""A target and maybe a draft that belong together: opened and compared, but not loaded."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.errors import DraftError, InputError, ModelError
from engine.files import FileState, file_state
from engine.gguf_header import LazyArray
from engine.loading.preparation import source_fingerprint
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.gguf.header import read_lists
from engine.model.heads.eagle import recorded_layers
from engine.model.heads.multi_token import head_of
from engine.model.shape import model_sizes
from engine.protocol.heads import is_eagle3
from engine.protocol.messages import CommonTokens
from engine.protocol.options import EMBEDDED, NO_DRAFT, OWN_HEADS, SELF_DRAFT, WITH_HEADS, LoadOptions
from engine.protocol.sentences import say
from engine.speculation.experts.sampled_size import Mixture
from engine.text.gguf_tokenizer import LISTS
from engine.text.intersection import TokenIntersection
from engine.text.tokenizer import Tokenizer

OF_TARGET = (SELF_DRAFT, OWN_HEADS)  # drafts that come from the target's own files
LEAST_COMMON = 0.2  # of the tokens of an ordinary text: with fewer a draft can hardly ever say what comes next


@dataclass(frozen=True, slots=True)
class PairIdentity:
    """What a pair is stored under. A target that drafts for itself, or with its own heads, is a pair of its own.

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
        drafting = self._of_target or (f"{self.draft.path}{self._merged}" if self.draft else "")
        others = () if method in ("auto", "specexec") else (method,)
        return " | ".join((str(self.target.path), drafting, self._weights, str(budget or "auto"), *others))

    def by_files(self) -> dict[str, str]:
        """The states of the target's and the draft's files (`self`, `heads` or `none` without any), and the weights.

        Raises `ModelError` if a file is gone.
        """
        return {
            "target": source_fingerprint(self.target),
            "draft": self._of_target or (source_fingerprint(self.draft) + self._merged if self.draft else NO_DRAFT),
            "weights": self._weights,
        }

    @property
    def _weights(self) -> str:
        """How the target's weights are held, and what they are multiplied with, if that is rounded."""
        options = self.options
        return options.weights if options.activations == "exact" else f"{options.weights} times {options.activations}"

    @property
    def _of_target(self) -> str:
        """Which draft of the target's own files it is; empty for others, and for none."""
        return self.options.draft if self.options.draft in OF_TARGET else ""

    @property
    def _merged(self) -> str:
        """What tells a draft that is merged with the target's heads from the same draft alone."""
        return WITH_HEADS if self.options.draft.endswith(WITH_HEADS) else ""


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair that was opened; `draft` None: there is no draft model of its own.

    `intersection`: of the vocabularies, where the draft's is another than the target's. `heads`: the target's own, or
    an EAGLE-3 head, where they draft: alone, then they are the `draft`, or merged with it. `states`: of all files, when
    they were opened.
    """

    options: LoadOptions
    target: Checkpoint
    draft: Checkpoint | None
    tokenizer: Tokenizer
    intersection: TokenIntersection | None = None
    heads: Checkpoint | None = None
    states: Mapping[Path, FileState | None] = field(default_factory=dict)

    @property
    def is_current(self) -> bool:
        """Whether no file was changed, or replaced by another one, since it was opened; one may be gone."""
        return not any(state and (file_state(path) or state) != state for path, state in self.states.items())

    @property
    def drafts_itself(self) -> bool:
        """Whether a copy of the target's own layers is the draft."""
        return self.options.draft == SELF_DRAFT

    @property
    def drafts_with_heads_alone(self) -> bool:
        """Whether the draft is a head, which reads what the target has computed, and nothing else."""
        return self.heads is not None and self.draft is self.heads

    @property
    def common_tokens(self) -> CommonTokens | None:
        """How well the draft knows the target's tokens; None where it has the same, or where there is none."""
        return CommonTokens(self.intersection.of_vocabulary, self.intersection.of_text) if self.intersection else None

    @property
    def identity(self) -> PairIdentity:
        """The identity of the pair."""
        return PairIdentity(self.target, self.draft, self.options)


def open_pair(options: LoadOptions) -> Pair:
    """Open both folders and compare their vocabularies; cheap. Raises `InputError` or `ModelError`."""
    pair = _opened(options)
    checkpoints = [each for each in (pair.target, pair.draft, pair.heads) if each]
    return replace(pair, states={path: file_state(path) for each in checkpoints for path in each.files})


def _opened(options: LoadOptions) -> Pair:
    options.check()
    target, source = open_checkpoint(options.target, role="target"), draft_source(options)
    opened = open_draft(source) if source else None
    heads = heads_for(target, opened, options)
    draft = opened or heads
    tokenizer = open_tokenizer(target)
    if draft is None or draft is heads:
        return Pair(options, target, draft, tokenizer, heads=heads)
    with draft_named(source):
        other = open_tokenizer(draft)
    if other.same_as(tokenizer):
        return Pair(options, target, draft, tokenizer, heads=heads)
    intersection = TokenIntersection(tokenizer, other)
    if intersection.of_text < LEAST_COMMON:
        raise ModelError(
            say(
                "The draft '{draft}' has another tokenizer than the target '{target}', and only {percent} % of the "
                "tokens of an ordinary text are in both.",
                draft=draft.name,
                target=target.name,
                percent=int(100 * intersection.of_text),
            ),
            say("Choose a draft of the same family, or no draft."),
        )
    return Pair(options, target, draft, tokenizer, intersection, heads)


def open_draft(source: str) -> Checkpoint:
    """Open the model that drafts; raises `DraftError`."""
    with draft_named(source):
        return open_checkpoint(source, role="draft")


@contextmanager
def draft_named(source: str) -> Iterator[None]:
    """Raise a `ModelError` as a `DraftError`: of two models, a person should know which one is at fault."""
    try:
        yield
    except ModelError as error:
        name = Path(source).name if Path(source).is_absolute() else source
        words = say("The draft '{draft}' cannot be used: {reason}", draft=name, reason=error.message)
        raise DraftError(words, error.hint, name, error.message) from None


def open_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer that came with a checkpoint; raises `ModelError` when there is none that can be used."""
    if checkpoint.metadata:
        said = checkpoint.metadata.items()  # other lists may be as long as the file's header
        own = {key: value for key, value in said if key in LISTS or not isinstance(value, LazyArray)}
        return Tokenizer.from_gguf(read_lists(own), checkpoint.name)
    return Tokenizer.open(checkpoint.folder)


def draft_source(options: LoadOptions) -> str:
    """The source of the draft model, with `auto` resolved; empty without one, and for one of the target's own files."""
    if options.draft == "auto":
        return EMBEDDED if options.target == EMBEDDED else ""
    return "" if options.draft in (NO_DRAFT, *OF_TARGET) else options.draft.removesuffix(WITH_HEADS)


def draft_for(target: Checkpoint, opened: Checkpoint | None, options: LoadOptions) -> Checkpoint | None:
    """What drafts: the draft that was opened, else the target's own heads, or nothing. Raises as `heads_for` does."""
    heads = heads_for(target, opened, options)
    return opened or heads


def heads_for(target: Checkpoint, opened: Checkpoint | None, options: LoadOptions) -> Checkpoint | None:
    """The head that drafts, alone or merged with a draft model: the draft that was opened, or the target's own.

    Raises `InputError` where the target has none, or where an EAGLE-3 head is to be merged with them, and `ModelError`
    for such a head that was made for another target, or is to be the target.
    """
    if is_eagle3(target.config):
        raise ModelError(
            say("'{name}' is a head that drafts for a larger model.", name=target.name),
            say("Choose that model as the target, and this as its draft."),
        )
    if opened is None or not is_eagle3(opened.config):
        return head_of(target) if drafts_with_heads(options) else None
    recorded_layers(opened, target)
    if drafts_with_heads(options):
        raise InputError(
            say("'{name}' is a head, and is not merged with the target's own.", name=opened.name),
            say("Choose one of them, or a draft model."),
        )
    return opened


def words_of_positions(draft: Checkpoint | None, context_tokens: int) -> str:
    """What a person should know of a draft model that reads less than the context; empty of others, and of heads."""
    longest = context_tokens if draft is None or is_eagle3(draft.config) else model_sizes(draft).max_positions
    if longest >= context_tokens:
        return ""
    return say("The draft proposes nothing behind {count} tokens, as it reads no more.", count=longest)


def drafts_with_heads(options: LoadOptions) -> bool:
    """Whether the target's own heads are to draft, alone or merged with a draft model."""
    return options.draft == OWN_HEADS or options.draft.endswith(WITH_HEADS)


def mixture_of(target: Checkpoint, draft: Checkpoint) -> Mixture | None:
    """What a target's experts are, as its files tell; None where it has none. An EAGLE-3 head counts as it stands."""
    sizes, other = model_sizes(target), model_sizes(draft)
    routed = [layer for layer in sizes.layers if 0 < layer.chosen < layer.experts]
    if not routed:
        return None
    count, chosen = routed[0].experts, routed[0].chosen
    left_out = sum(layer.elements - layer.active_elements for layer in routed)
    once, draft_once = (
        sum(layer.active_elements for layer in each.layers) + each.vocabulary * each.hidden for each in (sizes, other)
    )
    return Mixture(count, chosen, left_out * chosen / (count - chosen) / once, draft_once / once)
