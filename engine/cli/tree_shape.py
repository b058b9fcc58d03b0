"""`tree-shape`: Sequoia's optimal tree for an acceptance vector, a size and a depth."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.cli import values
from engine.cli.progress import print_json

if TYPE_CHECKING:
    from engine.speculation.trees.tree_program import TreeShape


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tree-shape`."""
    add = parser.add_argument
    add("--acceptance", type=values.numbers, required=True, metavar="0.6,0.2", help="acceptance of the k-th child")
    add("--budget", type=int, required=True, metavar="N", help="nodes at most, with the root")
    add("--max-depth", type=int, required=True, metavar="D", help="levels at most, with the root's")
    add("--json", action="store_true", help="exactly one JSON document on stdout")


def tree_shape(arguments: argparse.Namespace) -> None:
    """Run the command; raises `InputError` for bad input."""
    # torch is imported only behind a command line that makes sense
    from engine.speculation.trees.tree_program import best_shape, checked  # noqa: PLC0415

    acceptance = checked(arguments.acceptance)
    shape = best_shape(acceptance, arguments.budget, arguments.max_depth)
    expected = shape.expected_tokens(acceptance)
    if arguments.json:
        document = {"expected_tokens": expected, "parents": list(shape.parents), "depth": shape.levels}
        print_json(document)
    else:
        sys.stdout.write(f"{expected:.4f} tokens per pass from {len(shape)} nodes in {shape.levels} levels\n")
        sys.stdout.writelines(f"{line}\n" for line in _lines(shape))


def _lines(shape: "TreeShape") -> Iterator[str]:
    """A level a line: how many children each of its nodes has."""
    level: list[int] = [0]
    while level:
        yield " ".join(str(len(shape.children[node])) for node in level)
        level = [child for node in level for child in shape.children[node]]
