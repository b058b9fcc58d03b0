"""The pictures of a pair's texts: who of target and draft reads them, and is shown them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from engine.errors import InputError, ModelError
from engine.loading.pair import Pair
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context, SharedContext
from engine.model.heads.head_context import HeadContext
from engine.model.network import Network
from engine.model.pictures.picture_sizes import MOST_FEATURE_BYTES
from engine.model.pictures.reader import OnLayer, PictureReader, open_reader, require_few
from engine.picture_tokens import WrittenPicture
from engine.protocol.pictures import Picture
from engine.text.tokenizer import Tokenizer
from engine.weights.planning.placement import Plan

WritePictures = Callable[[Sequence[Picture]], Sequence[WrittenPicture]]
"""Tells how pictures stand in a prompt, in their order."""

SHARE = 1 / 16  # of the RAM that a plan leaves free


class PictureReaders:
    """Those of a target and its draft, as far as they have any; any thread may ask how pictures are written."""

    def __init__(
        self,
        target: PictureReader | ModelError,
        draft: PictureReader | None = None,
    ) -> None:
        """`target`: the reader, or why there is none."""
        self._target = target
        self._draft = draft
        self._seconds_before = 0.0

    @property
    def _readers(self) -> list[PictureReader]:
        return [each for each in (self._target, self._draft) if isinstance(each, PictureReader)]

    @property
    def seconds(self) -> float:
        """How long pictures were encoded since a text was shown last, for both."""
        return sum(reader.seconds for reader in self._readers) - self._seconds_before

    @contextmanager
    def told(self, encoding: OnLayer) -> Iterator[None]:
        """While it is open, `encoding` is called at every layer of an encoder."""
        for reader in self._readers:
            reader.on_layer = encoding
        try:
            yield
        finally:
            for reader in self._readers:
                reader.on_layer = None

    @property
    def reason(self) -> str:
        """Why the target reads no pictures; empty where it does."""
        return self._target.message if isinstance(self._target, ModelError) else ""

    def write(self, pictures: Sequence[Picture]) -> list[WrittenPicture]:
        """How pictures stand in a prompt; raises `InputError` for those that cannot be read."""
        if not pictures:
            return []
        if isinstance(self._target, ModelError):
            raise InputError(self._target.message, self._target.hint)
        require_few(pictures)
        return [self._target.written(picture) for picture in pictures]

    def show(self, target: Context, draft: Context | None, tokens: Sequence[int], pictures: Sequence[Picture]) -> bool:
        """Show both the pictures whose rows are among `tokens`; returns whether the draft reads these rows."""
        self._seconds_before += self.seconds
        target.show(None)
        if draft is not None and _reads_alone(draft):
            draft.show(None)
        if not pictures:
            return True
        assert isinstance(self._target, PictureReader), "only what it reads is in a prompt"
        target.show(self._target.shown(tokens, pictures))
        if draft is None or not _reads_alone(draft):
            return True
        if self._draft is None or not self._agree(pictures):
            return False
        draft.show(self._draft.shown(tokens, pictures))
        return True

    def _agree(self, pictures: Sequence[Picture]) -> bool:
        """Whether target and draft read these pictures in as many rows; a draft that cannot read one reads none."""
        assert self._draft is not None, "asked of a draft that reads pictures"
        assert isinstance(self._target, PictureReader), "it has read them"
        try:
            return all(self._draft.written(each).rows == self._target.written(each).rows for each in pictures)
        except InputError:
            return False


def readers_of(
    pair: Pair, target: Context, draft: Context | None, check: Callable[[], None], plan: Plan
) -> PictureReaders:
    """The readers of a pair, which keep as many features as there is room for beside what is planned.

    `check` may raise while a picture is encoded.
    """
    most = feature_bytes(plan)
    try:
        own = _reader(pair.target, pair.tokenizer, target.network, check, most)
    except ModelError as error:
        # Without its traceback, whose frames hold the networks.
        return PictureReaders(ModelError(error.message, error.hint))
    if draft is None or pair.draft is None or not _reads_alone(draft) or pair.intersection is not None:
        return PictureReaders(own)
    try:
        return PictureReaders(own, _reader(pair.draft, pair.tokenizer, draft.network, check, most))
    except ModelError:
        return PictureReaders(own)


def feature_bytes(plan: Plan) -> int:
    """The bound of the features of pictures that are kept: a share of the RAM that the plan leaves free."""
    left = plan.room.ram - plan.room.ram_taken(plan.bytes.device, plan.bytes.ram)
    return min(MOST_FEATURE_BYTES, max(0, int(SHARE * left)))


def _reads_alone(draft: Context) -> bool:
    """Whether a draft reads texts itself, and does not borrow what the target has read."""
    return not isinstance(draft, SharedContext | HeadContext)


def _reader(
    checkpoint: Checkpoint, tokenizer: Tokenizer, network: Network, check: Callable[[], None], most_bytes: int
) -> PictureReader:
    return open_reader(checkpoint, tokenizer.library, network.dtype, network.device, check, most_bytes)
