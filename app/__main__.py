"""`python -m app` and the script `coppice`: opens the window, or does without one what needs none."""

import gc
import os
import signal
import sys
from collections.abc import Sequence

from app.system.bundle import DRAW, ENCODE, READ_PDF, READ_PICTURE

EXIT_BAD_INPUT, EXIT_INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. What needs no window works where Qt does not."""
    try:
        return _run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:  # while something is imported; what runs hears of it by itself
        return EXIT_INTERRUPTED
    except ModuleNotFoundError as error:
        from engine.errors import no_package  # noqa: PLC0415  # only where something is missing

        print(no_package(error), file=sys.stderr)  # noqa: T201  # a terminal's job
        return EXIT_BAD_INPUT


def _run_own(words: list[str]) -> int:
    """Not for people: how a packaged program starts the processes that do its work beside the window."""
    if words[0] == DRAW:
        from app.chat.typesetting.drawing_program import main as draw  # noqa: PLC0415

        return draw()
    if words[0] == ENCODE:
        from app.tree.exports.animations.encoding_program import main as encode  # noqa: PLC0415

        return encode()
    if words[0] == READ_PICTURE:
        from app.chat.composer.picture_program import main as read_picture  # noqa: PLC0415

        return read_picture(words[1:])
    from app.chat.composer.pdf_program import main as read_pdf  # noqa: PLC0415

    return read_pdf(words[1:])


def _run(words: list[str]) -> int:
    if words[:1] == ["download"]:
        from app.downloads.command import run  # noqa: PLC0415

        return run(words[1:])
    if words[:1] == ["runtime"]:
        from app.installation.command import run as run_runtime  # noqa: PLC0415

        return run_runtime(words[1:])
    if words[:1] == ["serve"]:
        from app.engine.serve import run as run_server  # noqa: PLC0415

        return run_server(words[1:])
    if words[:1] in ([DRAW], [ENCODE], [READ_PDF], [READ_PICTURE]):
        return _run_own(words)
    # Qt's types are made when PySide6 is imported, not when they are first named: that happens in threads and inside
    # of event filters, too, and making one while another is being made ends the program.
    os.environ["PYSIDE6_OPTION_LAZY"] = "0"
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # An error raised in the middle of an import is lost, or ends the program by an abort, where the import goes
        # through Qt's bindings. Nothing is to be cleaned up until `Ending` takes the signal.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # until the window is there: a seventh of the time would go into looking for garbage
    from app.main import main as open_window  # noqa: PLC0415

    return open_window(words)


if __name__ == "__main__":
    sys.exit(main())
