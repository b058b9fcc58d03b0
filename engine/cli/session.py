"""A pair loaded on behalf of the terminal, with progress on stderr."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.cli.progress import LoadingSaid, ReadingSaid, say
from engine.engine import Engine, load
from engine.errors import Cancellation, InputError
from engine.loading.pair import open_pair
from engine.observing.watcher import Watcher
from engine.protocol.messages import ChatMessage, Finished, Loaded, Loading, Round, Statistics
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.text.prompt import Prompt
from engine.weights.planning.machine import process_bytes

STDIN = "-"
"""In place of a file, or of a prompt."""


@dataclass(slots=True)
class CollectedAnswer:
    """One answer, collected. `rounds` holds every round's event, in order."""

    rounds: list[Round] = field(default_factory=list)
    text: str = ""
    reason: str = ""
    statistics: Statistics = field(default_factory=Statistics)

    @property
    def token_ids(self) -> list[int]:
        """The answer's tokens: of every round the accepted nodes behind the root, then the bonus token."""
        return [token for event in self.rounds for token in round_tokens(event)]


def round_tokens(event: Round) -> list[int]:
    """The tokens the answer grew by in this round."""
    tokens = memoryview(event.tree.tokens).cast("i")
    return [*(tokens[node] for node in event.accepted[1:]), event.bonus]


class Session:
    """One engine for the length of one command."""

    def __init__(self, options: LoadOptions, quiet: bool) -> None:
        """Load the pair; `quiet` keeps stderr empty. Raises `CoppiceError`."""
        begin = time.perf_counter()
        self._quiet = quiet
        self._bytes_before = process_bytes()
        self.loaded: Loaded | None = None
        self.engine = self._load(options, quiet)
        self.load_seconds = time.perf_counter() - begin

    def prompt(self, chat: Sequence[ChatMessage], is_raw: bool) -> Prompt:
        """The messages as the chat template has them, or their texts as they stand.

        Raises `InputError` where there is nothing to answer, nothing to read, or pictures for a model that reads none.
        """
        has_pictures = any(message.pictures for message in chat)
        if has_pictures and is_raw:
            raise InputError("A prompt as it stands cannot show pictures.", "Leave out --raw.")
        if has_pictures and not self.engine.reads_pictures:
            words = self.engine.no_pictures or "The model reads no pictures."
            raise InputError(words, "Leave them out, or choose a target that reads pictures.")
        if not is_raw:
            return self.engine.prompt(chat)
        prompt = self.engine.raw_prompt("\n".join(message.content for message in chat))
        if not prompt.tokens:
            raise InputError("A raw prompt has no tokens.", "Write something into every prompt.")
        return prompt

    @property
    def planned_bytes(self) -> dict[str, int]:
        """The peaks that were planned for: what the pair takes of the device and of RAM, and this process with it."""
        assert self.loaded
        assert self.loaded.residence, "whatever was loaded was planned"
        held = self.loaded.residence
        total = self._bytes_before + held.ram.taken
        return {"device": held.device.taken, "ram": held.ram.taken, "peak_rss": total}

    def _load(self, options: LoadOptions, quiet: bool) -> Engine:
        steps, progress = load(0, open_pair(options), Cancellation()), LoadingSaid()
        while True:
            try:
                event = next(steps)
            except StopIteration as end:
                engine: Engine = end.value
                return engine
            except BaseException:
                progress.end()
                raise
            if isinstance(event, Loading) and not quiet:
                progress.hear(event)
            else:
                progress.end()
            if isinstance(event, Loaded):
                self.loaded = event
                if event.target.note and not quiet:
                    say(event.target.note)

    def answer(self, prompt: Prompt, options: GenerateOptions) -> Iterator[tuple[str, CollectedAnswer]]:
        """Yields each piece of text with the answer so far; the last one is complete."""
        answer = CollectedAnswer()
        watcher = None if self._quiet else Watcher(ReadingSaid().hear, judges=options.verdicts)
        for event in self.engine.generate(0, prompt, options, watcher):
            if isinstance(event, Round):
                answer.rounds.append(event)
                answer.text += event.text
                yield event.text, answer
            elif isinstance(event, Finished):
                assert event.statistics
                answer.text += event.text
                answer.reason, answer.statistics = event.reason, event.statistics
                yield event.text, answer

    def collect(self, prompt: Prompt, options: GenerateOptions) -> CollectedAnswer:
        """The complete answer."""
        *_, (_, answer) = self.answer(prompt, options)
        return answer


def parse_json(text: str, origin: str) -> Any:
    """Parsed JSON; raises `InputError` naming `origin`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin} is not valid JSON: {error}.", "Check the file.") from error


def read_text(path: str) -> str:
    """The content of a UTF-8 file, with or without a byte order mark, or of stdin; raises `InputError`."""
    try:
        return _read_stdin() if path == STDIN else Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # also a path with a null byte, and what is not UTF-8
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        hint = "Send UTF-8 text." if path == STDIN else "Check the path."
        raise InputError(f"{origin_of(path)} cannot be read: {reason}.", hint) from error


def origin_of(path: str) -> str:
    """What an error calls the file."""
    return "stdin" if path == STDIN else path


def _read_stdin() -> str:
    if sys.stdin is None:  # a shell has closed it
        return ""
    return sys.stdin.buffer.read().decode("utf-8-sig")
