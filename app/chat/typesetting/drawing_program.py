"""A program without a window that draws formulas and colours code: one request a line, one answer a line.

Libraries that read hostile text can take for ever or all memory. Here both are limited, and the program ends when the
window closes its end of the pipe, or when a request takes too long, without being ended from outside.
"""

import faulthandler
import os
import signal
import sys
from dataclasses import asdict
from functools import lru_cache
from typing import Any, BinaryIO

from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers import get_all_lexers, get_lexer_by_name  # type: ignore[import-untyped]

from app.chat.typesetting.drawing_process import DEADLINE_VARIABLE, READY
from app.chat.typesetting.formula_drawing import draw
from app.system import json_text as json
from engine.memory_limit import limit_own_memory

LONGEST_CODE = 6_000  # characters; what is longer is shown without colours
Runs = list[tuple[int, str]]
"""The length of each stretch of code, and the name of its kind of token."""

_MEMORY_BYTES = 512 << 20  # of addresses; drawing takes less than a tenth of it


def token_runs(code: str, language: str) -> Runs:
    """The stretches of a code from its begin to its end; none where the language is not known or the code too long."""
    lexer = _lexer(language) if len(code) <= LONGEST_CODE else None
    runs: Runs = []
    for kind, text in lexer.get_tokens(code) if lexer is not None else ():
        if runs and runs[-1][1] == str(kind):
            runs[-1] = (runs[-1][0] + len(text), runs[-1][1])
        elif text:
            runs.append((len(text), str(kind)))
    return runs if sum(length for length, _ in runs) == len(code) else []


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    """The lexer of a language. Plugins are not looked for: that would search through all that is installed."""
    if language.lower() not in _known_languages():
        return None
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@lru_cache(maxsize=1)
def _known_languages() -> frozenset[str]:
    return frozenset(alias.lower() for _, aliases, _, _ in get_all_lexers(plugins=False) for alias in aliases)


def main() -> int:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is for the window
    limit_own_memory(_MEMORY_BYTES)
    # What libraries print must not stand among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with os.fdopen(0, "rb", closefd=False) as requests, os.fdopen(nowhere, "wb") as trace:
        try:
            _serve(requests, answers, trace)
        except BrokenPipeError:
            return 0
    return 0


def _serve(requests: BinaryIO, answers: BinaryIO, trace: BinaryIO) -> None:
    seconds = float(os.environ.get(DEADLINE_VARIABLE, "10"))
    draw("x", displayed=False)  # loads the fonts
    token_runs("x", "python")
    _write(answers, READY)
    for line in requests:
        # Ends the process from a thread that needs no Python: a regular expression lets none run beside it.
        faulthandler.dump_traceback_later(seconds, exit=True, file=trace)
        answer = _answer(json.loads(line))
        faulthandler.cancel_dump_traceback_later()
        _write(answers, answer)


def _answer(request: dict[str, Any]) -> object:
    match request:
        case {"latex": str(latex), "displayed": bool(displayed)}:
            picture = draw(latex, displayed)
            return asdict(picture) if picture else None
        case {"code": str(code), "language": str(language)}:
            try:
                return token_runs(code, language)
            except Exception:  # noqa: BLE001 - a lexer that fails on odd text leaves it without colours
                return []
    return None


def _write(answers: BinaryIO, answer: object) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
