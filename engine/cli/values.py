"""How single values are written on a command line."""

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path

from engine.kept_files import AUTOMATIC
from engine.protocol.options import UNMEASURED, Constraint, is_grow_map

GIB = 1 << 30


def budget(text: str) -> int:
    """A number of drafted nodes; 0 for `auto`."""
    if text == "auto":
        return 0
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of nodes from 1 on, nor 'auto'")
    return number


def gib(text: str) -> int:
    """Bytes, from a number of GiB that may have a fraction."""
    number = _number(text)
    if not 0 < number < 1 << 20:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of GiB above 0")
    return int(number * GIB)


def keep_bytes(text: str) -> int:
    """Bytes, from a number of 1e9 of them, 0 for none; `AUTOMATIC` for `auto`."""
    if text == "auto":
        return AUTOMATIC
    number = _number(text)
    if not 0 <= number < 1 << 20:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of gigabytes from 0 on, nor 'auto'")
    return int(number * 1e9)


def rate(text: str) -> float:
    """A number above 0, such as 1e9 bytes a second or tokens a pass."""
    number = _number(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None


def counts(text: str) -> list[int]:
    """Whole numbers."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of whole numbers") from None


def acceptance(path: str) -> str:
    """A file that can be read, or what stands for none; whether it is of this pair is known once that is open."""
    if path and path != UNMEASURED:
        try:
            Path(path).open("rb").close()
        except OSError as error:
            raise argparse.ArgumentTypeError(f"{path} cannot be read: {error.strerror}") from None
    return path


def grow_map(path: str) -> tuple[int, ...]:
    """The parents in a file that `tree-shape --json` wrote."""
    try:
        found = json.loads(Path(path).read_bytes())
        parents = tuple(int(parent) for parent in found["parents"])
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise argparse.ArgumentTypeError(f"{path} holds no output of `tree-shape --json`") from None
    if not parents or not is_grow_map(parents):
        raise argparse.ArgumentTypeError(f"{path} holds no tree: parents must stand before their children")
    return parents


def schema(path: str) -> Constraint:
    """The JSON schema in a file; that it is JSON at all is told before a model is loaded."""
    text = _text_of(path)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{path} is not valid JSON: {error}") from None
    return Constraint("json_schema", text)


def grammar(path: str) -> Constraint:
    """The grammar in a file, in GBNF or Lark."""
    return Constraint("gbnf", _text_of(path))


def regex(text: str) -> Constraint:
    """A regular expression for the whole answer."""
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of a terminal are half surrogate pairs
        raise argparse.ArgumentTypeError("the pattern is not UTF-8 text") from None
    return Constraint("regex", text)


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")  # editors on Windows write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {reason}") from None


def _list_of(convert: Callable[[str], object]) -> Callable[[str], list[object]]:
    return lambda text: [convert(part.strip()) for part in text.split(",") if part.strip()]


names = _list_of(str)
numbers = _list_of(_number)
budgets = _list_of(budget)
