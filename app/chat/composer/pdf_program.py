"""A program without a window that finds the text of a PDF: the file goes in, and a line comes out for each page.

pypdf is Python alone, and a hostile file can keep it busy for minutes, have it take many gigabytes, and let no other
thread run meanwhile. Here time and memory are limited, and whoever started the program may end it at any time.
"""

import io
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from app.system import json_text as json
from app.system.own_program import answering

MOST_PAGES = 3000
_MEMORY_BYTES = 1 << 30  # of addresses; three thousand pages in 60 MiB take a third of it


@dataclass(frozen=True, slots=True)
class Told:
    """A line: first how many pages there are, then the text of each, then that there are no more; or why there is none.

    Pages behind the last one that was told are too many, or would be too long. Without the last line there was not
    enough memory or time.
    """

    count: int | None = None
    page: str | None = None
    is_last: bool = False
    refused: Literal["", "encrypted", "damaged"] = ""


def lines_of(content: bytes, most_characters: int) -> Iterator[Told]:
    """The lines for a file; its pages have so many characters at most, the last one not counted."""
    from pypdf import PdfReader  # noqa: PLC0415  # under the limits
    from pypdf.errors import DependencyError  # noqa: PLC0415

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every irregularity, and most files have some
    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            yield Told(refused="encrypted")
        else:
            yield from _pages(reader, most_characters)
    except DependencyError:
        yield Told(refused="encrypted")
    except MemoryError:
        return
    except Exception:  # noqa: BLE001  # damaged files raise anything here
        yield Told(refused="damaged")


def _pages(reader: Any, most_characters: int) -> Iterator[Told]:
    count, length = len(reader.pages), 0
    yield Told(count)
    for number in range(min(count, MOST_PAGES)):
        page = reader.pages[number].extract_text().strip()
        length += len(page)
        yield Told(page=page)
        if length > most_characters:
            break
    yield Told(is_last=True)


def main(words: Sequence[str]) -> int:
    """Tell of the file that is read from stdin; `words`: the most characters, and the most seconds."""
    most_characters, seconds = int(words[0]), float(words[1])
    with answering(seconds, _MEMORY_BYTES) as lines:
        for line in lines_of(sys.stdin.buffer.read(), most_characters):
            lines.write(json.dumps(asdict(line)).encode() + b"\n")
            lines.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
