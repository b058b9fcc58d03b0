"""Real answers of few tokens, whatever is asked for: for tests of how the server is asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from engine.engine import Engine
from engine.observing.watcher import Watcher
from engine.protocol.messages import Event
from engine.protocol.options import GenerateOptions
from engine.text.prompt import Prompt


@contextmanager
def short_answers(most_tokens: int) -> Iterator[None]:
    """Every engine's answers end after so many."""
    generate = Engine.generate

    def cut(
        engine: Engine, request: int, prompt: Prompt, options: GenerateOptions, watcher: Watcher | None = None
    ) -> Iterator[Event]:
        few = replace(options, max_new_tokens=min(most_tokens, options.max_new_tokens))
        return generate(engine, request, prompt, few, watcher)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "generate", cut)
        yield
