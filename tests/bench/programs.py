"""Programs that answer with the same weights, each in a process of its own, and asked in the same way.

`python -m tests.bench.programs JSON` is such a process: `Setup`'s fields come as its argument, questions come by the
line, and so do answers go. What a program prints itself goes to the error output.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.idle_threads import let_idle_threads_sleep

CONTEXT = 1024
NONE, AUTO = "none", "auto"


@dataclass(frozen=True, slots=True)
class Setup:
    """A program, its files and how it drafts.

    `size`: "none", the tokens of a chain (llama.cpp), or the nodes of a tree or "auto" (Coppice). `is_tight`: all
    memory is for the program, as in a group with a limit; else Coppice leaves others what it leaves them for people.
    """

    program: str
    model: str
    draft: str = ""
    size: str = NONE
    place: str = "device"
    weights: str = AUTO
    cache: str = ""
    threads: int = 2
    is_tight: bool = True
    activations: str = "exact"


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer: its tokens, and the seconds in which `counted` of them were written, in so many passes.

    `read`: tokens of the prompt that were not known, in so many seconds; where a program tells.
    """

    tokens: tuple[int, ...]
    counted: int
    seconds: float
    passes: int
    read: int = 0
    read_seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Of decoding; reading the prompt is left out."""
        return self.counted / self.seconds

    @property
    def read_per_second(self) -> float:
        """Tokens of the prompt."""
        return self.read / self.read_seconds if self.read_seconds else 0.0


class Program(Protocol):
    """What is asked."""

    def answer(self, prompt: Sequence[int], count: int) -> Turn:
        """Greedy text of up to `count` tokens."""
        ...


class LlamaCpp:
    """llama.cpp's server; its first token comes with the prompt, and is not counted."""

    def __init__(self, setup: Setup) -> None:
        from tests.campaigns.llama_cpp import Peer

        draft = None if setup.size == NONE else Path(setup.draft)
        chain = 0 if setup.size == NONE else int(setup.size)
        fits = setup.place == "device"
        self._peer = Peer(Path(setup.model), setup.threads, exact=False, draft=draft, chain=chain, repacks=fits)

    def answer(self, prompt: Sequence[int], count: int) -> Turn:
        """As `Program`."""
        found = self._peer.complete(prompt, count, cache_prompt=False)
        timings, tokens = found["timings"], tuple(found["tokens"])
        counted = timings["predicted_n"] - 1
        passes = counted - timings.get("draft_n_accepted", 0)
        seconds, read_seconds = timings["predicted_ms"] / 1000, timings["prompt_ms"] / 1000
        return Turn(tokens, counted, seconds, max(1, passes), timings["prompt_n"], read_seconds)


class Coppice:
    """This engine; all tokens come behind the prompt."""

    def __init__(self, setup: Setup) -> None:
        import torch

        from engine.cli.session import Session
        from engine.protocol.options import GenerateOptions, LoadOptions, SpeculationOptions

        torch.set_num_threads(setup.threads)
        self._budget = int(setup.size) if setup.size.isdecimal() else 0
        method = NONE if setup.size == NONE else "specexec" if self._budget else AUTO
        self._options = GenerateOptions(speculation=SpeculationOptions(method=method, budget=self._budget))
        options = LoadOptions(
            target=setup.model,
            draft=NONE if setup.size == NONE else setup.draft,
            device="cpu",
            weights=setup.weights,
            activations=setup.activations,
            context_tokens=CONTEXT,
            place=setup.place,  # type: ignore[arg-type]
            force=setup.place == "auto" and setup.is_tight,
            cache_dir=setup.cache,
            budget=self._budget,
        )
        self._session = Session(options, quiet=False)

    def answer(self, prompt: Sequence[int], count: int) -> Turn:
        """As `Program`."""
        from dataclasses import replace

        from engine.text.prompt import Prompt

        found = self._session.collect(Prompt(tuple(prompt)), replace(self._options, max_new_tokens=count))
        told = found.statistics
        read, seconds = told.prompt_tokens - told.cached_tokens, told.seconds
        return Turn(tuple(found.token_ids), told.new_tokens, seconds.decode, told.passes, read, seconds.prefill)


class AirLlm:
    """AirLLM, which brings layer after layer from disk; its first token comes with the prompt, and is not counted."""

    def __init__(self, setup: Setup) -> None:
        import torch
        from airllm import AutoModel

        torch.set_num_threads(setup.threads)
        shards = Path(setup.cache) / "airllm"
        shards.mkdir(parents=True, exist_ok=True)
        self._model = AutoModel.from_pretrained(setup.model, device="cpu", layer_shards_saving_path=str(shards))

    def answer(self, prompt: Sequence[int], count: int) -> Turn:
        """As `Program`."""
        import torch

        from engine.cli.contenders import FirstTokenClock

        clock = FirstTokenClock()
        made = self._model.generate(
            torch.tensor([list(prompt)]), max_new_tokens=count, do_sample=False, use_cache=True, streamer=clock
        )
        seconds = time.perf_counter() - clock.first_at
        tokens = tuple(made[0, len(prompt) :].tolist())
        return Turn(tokens, len(tokens) - 1, seconds, max(1, len(tokens) - 1))


PROGRAMS: dict[str, Any] = {"llama.cpp": LlamaCpp, "Coppice": Coppice, "AirLLM": AirLlm}


class AnswerError(Exception):
    """A program ended instead; says its last words."""


class Asked:
    """A program in a process of its own; `before` are the words before its command."""

    def __init__(self, setup: Setup, before: Sequence[str], errors: Path) -> None:
        """Start it, and wait until it has loaded; what it says beside its answers goes to `errors`.

        Raises `AnswerError`.
        """
        self.setup, self._errors = setup, errors
        command = [*before, sys.executable, "-m", "tests.bench.programs", json.dumps(asdict(setup))]
        with errors.open("w", encoding="utf-8") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
            )
        self._reply()

    def answer(self, prompt: Sequence[int], count: int) -> Turn:
        """Ask; raises `AnswerError`."""
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps([list(prompt), count]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error
        found = self._reply()
        return Turn(**{**found, "tokens": tuple(found["tokens"])})

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _reply(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return json.loads(line)

    def _ended(self) -> AnswerError:
        code = self._process.wait()
        lines = self._errors.read_text(errors="replace").strip().splitlines() or [""]
        return AnswerError(f"{self.setup.program} ended with {code}: {lines[-1]}")


def main() -> None:
    """Load, then answer line by line until there are no more."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    setup = Setup(**json.loads(sys.argv[1]))
    let_idle_threads_sleep()  # as the engine's own programs do, before torch is imported
    program: Program = PROGRAMS[setup.program](setup)
    replies.write('"loaded"\n')
    for line in sys.stdin:
        prompt, count = json.loads(line)
        replies.write(json.dumps(asdict(program.answer(prompt, count))) + "\n")


if __name__ == "__main__":
    main()
