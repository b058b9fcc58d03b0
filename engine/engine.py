"""A loaded pair as a library: load it, describe it, write prompts for it, and have it answer, as events."""

import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from pathlib import Path

from engine.answering import Answering
from engine.errors import Cancellation
from engine.loading.learned import PairMeasurements
from engine.loading.loaded_pair import LoadedPair, load_pair
from engine.loading.pair import Pair
from engine.loading.picture_readers import WritePictures
from engine.observing.watcher import Watcher
from engine.protocol.messages import ChatMessage, Event, Finished, Generate, Loaded, Loading, TemplateValues
from engine.protocol.options import Constraint, GenerateOptions, LoadOptions
from engine.protocol.reasoning import Marks
from engine.protocol.tools import Tool
from engine.text.grammars.constrained_answer import check_constraint
from engine.text.prompt import Prompt, pictures_of, require_readable, write_prompt
from engine.text.tokenizer import Tokenizer
from engine.trial import rehearse, trial_answers


def load(
    request: int, pair: Pair, cancellation: Cancellation, keeps_texts: bool = False
) -> Generator[Event, None, "Engine"]:
    """Load the weights of both models; yields `Loading`, then `Loaded` and `Finished`, and returns the engine.

    A pair that never answered with its layers placed so answers a few questions of its own first (`engine.trial`).
    `keeps_texts`: in RAM, for several who ask in turn; see `engine.loading.kept.kept_texts`. Raises `InputError`,
    `ModelError`, `OutOfMemory` or `Cancelled`; nothing is left behind then.
    """
    begin = time.perf_counter()
    engine = Engine((yield from load_pair(request, pair, cancellation, keeps_texts)))
    try:
        yield from engine.try_answers(request, cancellation)
        yield engine.describe(request, time.perf_counter() - begin)
        yield Finished(request, "loaded")
    except BaseException:
        engine.close()
        raise
    return engine


class Engine:
    """One loaded pair."""

    def __init__(self, loaded: LoadedPair) -> None:
        """`loaded`: closed with the engine."""
        self.target = loaded.target
        self.draft = loaded.draft
        self._loaded = loaded

    def close(self) -> None:
        """End the streams' threads and give their memory back."""
        self._loaded.texts.clear()
        self._loaded.weights.close()

    @property
    def options(self) -> LoadOptions:
        """What it was loaded with."""
        return self._loaded.pair.options

    @property
    def is_current(self) -> bool:
        """Whether its files are still those that were loaded."""
        return self._loaded.pair.is_current

    @property
    def source(self) -> Path:
        """The target's folder, or its GGUF file."""
        return self._loaded.pair.target.path

    @property
    def translates(self) -> bool:
        """Whether the draft has another vocabulary than the target."""
        return self._loaded.translation is not None

    @property
    def end_tokens(self) -> frozenset[int]:
        """The tokens that end an answer."""
        return self._loaded.pair.tokenizer.eos_ids

    @property
    def name(self) -> str:
        """What the target is called."""
        return self._loaded.pair.target.name

    @property
    def context_tokens(self) -> int:
        """How long prompt and answer may be together."""
        return self._loaded.context_tokens

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's; may be used from any thread, whatever runs."""
        return self._loaded.pair.tokenizer

    @property
    def reasoning_marks(self) -> Marks:
        """What stands around the reasoning in the text of answers."""
        return self._loaded.pair.tokenizer.reasoning.shown

    @property
    def measurements(self) -> PairMeasurements:
        """How this pair accepts, and how long its passes take; raises `InputError` where nothing drafts."""
        return self._loaded.measurements

    def keep_on_disk(self, cache_dir: str, most_bytes: int) -> None:
        """Keep what is read for conversations in files from now on, or no longer; see `KeepTexts`."""
        self._loaded.keep_on_disk(cache_dir, most_bytes)

    def forget(self, conversations: Collection[str]) -> None:
        """Drop what was read for these, for all where none is named, before anything else; from any thread."""
        self._loaded.texts.forget(conversations)

    def rehearse(self, check: Callable[[], None]) -> None:
        """Have ready what the first answer would wait for; `check` may raise to end it. See `engine.trial`."""
        rehearse(self._loaded, check)

    def rest(self, check: Callable[[], None]) -> bool:
        """Nobody asks: write what was read into files, if it is to be kept; whether there was something new.

        `check` is called often, and may raise to end it. Raises `Cancelled` where something is to be forgotten.
        """
        return self._loaded.texts.rest(check)

    @property
    def kept_complaint(self) -> str:
        """What went wrong with such files since this was asked last, in words."""
        return self._loaded.kept_complaint

    @property
    def kept_bytes(self) -> int:
        """What the files of all pairs take."""
        return self._loaded.kept_bytes

    def try_answers(self, request: int, cancellation: Cancellation) -> Iterator[Loading]:
        """Let the pair find out what it gives here, where that is not known; see `engine.trial`."""
        return trial_answers(request, self._loaded, cancellation)

    def describe(self, request: int, seconds: float) -> Loaded:
        """What is loaded, as an event."""
        return self._loaded.describe(request, seconds)

    def prompt(self, chat: Sequence[ChatMessage], tools: Sequence[Tool] = (), values: TemplateValues = ()) -> Prompt:
        """The conversation as the target's chat template puts it, up to where its answer begins or goes on."""
        written = self.write_pictures(pictures_of(chat))
        return write_prompt(self._loaded.pair.tokenizer, chat, tools, values, written)

    @property
    def write_pictures(self) -> WritePictures:
        """Tells how pictures are written in a prompt; may be asked from any thread, whatever runs.

        It raises `InputError` for what is no picture, or where the target reads none.
        """
        return self._loaded.pictures.write

    @property
    def no_pictures(self) -> str:
        """Why the target reads no pictures, in a sentence; empty where it does."""
        return self._loaded.pictures.reason

    @property
    def reads_pictures(self) -> bool:
        """Whether the target reads pictures."""
        return not self.no_pictures

    def prompt_of(self, request: Generate) -> Prompt:
        """What is read for this request; raises `InputError` where there is nothing to answer."""
        if isinstance(request.raw, str):
            return self.raw_prompt(request.raw)
        if request.raw is not None:
            return Prompt(request.raw)
        return self.prompt(request.chat, request.tools, request.template_values)

    def require_readable(self, request: Generate) -> None:
        """Raise `InputError` where this request's prompt is empty, too long, or has tokens that the target lacks."""
        require_readable(self.prompt_of(request), self.target.network.vocabulary, self.context_tokens)

    def raw_prompt(self, text: str) -> Prompt:
        """The text as it stands, without a chat template, behind the token that begins every text, if there is one."""
        return Prompt(tuple(self._loaded.pair.tokenizer.encode_raw(text)))

    def check_constraint(self, constraint: Constraint) -> None:
        """Raise `InputError` for a constraint that cannot be used, or would take too much.

        The first time that one is given this may take seconds, which `generate` would keep the engine for: call it
        before, from another thread.
        """
        check_constraint(self.tokenizer, constraint)

    def generate(
        self, request: int, prompt: Prompt, options: GenerateOptions, watcher: Watcher | None = None
    ) -> Iterator[Event]:
        """Answer `prompt`: `Prefilled`, a `Round` per target pass, and `Finished`.

        A cancelled request finishes too, with what it has. Raises `InputError` before anything is computed; the events
        raise `OutOfMemory` where not even a pass without a tree is possible. `watcher` is told of the rounds too.
        """
        watcher = watcher or Watcher(judges=options.verdicts)
        return Answering(self._loaded, prompt, options, watcher).events(request)
