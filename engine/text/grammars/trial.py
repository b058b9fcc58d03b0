"""Has a grammar compiled in a process of its own before the engine does it, because it may come from anybody."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from engine.errors import InputError
from engine.memory_limit import limit_memory_of
from engine.protocol.options import Constraint
from engine.protocol.sentences import say
from engine.text.backend import complaint_of

PROGRAM = Path(__file__).with_name("trial_process.py")
MEMORY_BYTES = 1 << 30
SECONDS = 30.0  # where the system bounds no processor time, or has none to spare
REMEMBERED = 64
_ADVICE = re.compile(r"\s*Enable '\w+' option[^.]*")


def try_out(constraint: Constraint, special: Mapping[int, str]) -> None:
    """Raise `InputError` unless the grammar compiles in moderate time, memory and depth; takes 0.2 s the first time.

    `special`: the names of special tokens, which it may mention.
    """
    if constraint.kind == "json":
        return
    try:
        refused = _refusal(constraint, json.dumps(special))
    except _NoVerdict:
        raise InputError(
            say("The constraint of the answer is too complex."), say("Give a smaller schema or a simpler grammar.")
        ) from None
    if refused:
        raise cannot_be_used(refused)


def cannot_be_used(reason: str) -> InputError:
    """The error for a constraint that does not compile; `reason`: the library's own words.

    What it advises the program that uses it is left out: who sends a constraint cannot choose the library's options.
    """
    complaint = complaint_of(ValueError(_ADVICE.sub("", reason)))
    words = say("The constraint of the answer cannot be used: {reason}.", reason=complaint)
    return InputError(words, say("Change the schema or the grammar."))


class _NoVerdict(Exception):  # noqa: N818  # it says nothing of the grammar
    """The process did not survive the grammar, or was too slow, which may be due to a busy machine."""


@lru_cache(maxsize=REMEMBERED)
def _refusal(constraint: Constraint, special: str) -> str:
    """Why not, empty where nothing speaks against it. Raises `_NoVerdict`, which is not remembered."""
    request = {"kind": constraint.kind, "text": constraint.text, "special": json.loads(special)}
    # -P: the folder of the program holds modules of ours, which must not stand in for others.
    with subprocess.Popen(
        [sys.executable, "-P", str(PROGRAM), str(MEMORY_BYTES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    ) as child:
        limit_memory_of(child.pid, MEMORY_BYTES)
        try:
            said, _ = child.communicate(json.dumps(request).encode(), SECONDS)
        except subprocess.TimeoutExpired:
            raise _NoVerdict from None
        finally:
            child.kill()  # it has ended, most often
    if child.returncode or not said:
        raise _NoVerdict
    return str(json.loads(said)["refused"])
