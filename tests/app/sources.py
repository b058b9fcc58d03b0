"""The program's own source, parsed once for all tests that look at how it is written."""

import ast
import gc
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.system.paths import ROOT


@dataclass(frozen=True, slots=True)
class Source:
    """A module: its path below the repository, its syntax tree, and all nodes of that, from the outside inwards."""

    place: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]


@cache
def sources(room: str, having: str = "") -> tuple[Source, ...]:
    """Every module of `engine` or `app` in which a regular expression is found, in the order of their paths.

    For tests without widgets: no garbage collection looks at what is alive now any more, since these are half a
    million nodes.
    """
    found = []
    for file in sorted((ROOT / room).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if re.search(having, text):
            found.append(_parsed(file))
    gc.freeze()
    return tuple(found)


@cache
def _parsed(file: Path) -> Source:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return Source(file.relative_to(ROOT).as_posix(), tree, tuple(ast.walk(tree)))
