"""`coppice runtime`: the engine's runtime without a window, with the same code as the assistant."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from app.i18n.units import size_text
from app.installation.runtime.installation import Installation
from app.installation.runtime.manager import RuntimeManager, runtime_manager
from app.installation.runtime.place import Wanted
from app.installation.runtime.progress import InstallProgress, Stage
from app.system import json_text as json
from app.system.background import start
from app.system.command_line import BAD_INPUT, INTERRUPTED, CommandParser, print_line, print_note
from app.system.files import become_private
from app.system.paths import Folders, chosen_folders
from engine.errors import CoppiceError

_LOOK_SECONDS = 0.2


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0 when it is as asked for, 1 where `status` finds no engine, 2 for a failure, 130 interrupted."""
    options = _build_parser().parse_args(arguments)
    become_private()
    folders = chosen_folders(options.data_dir)
    manager = runtime_manager(folders)
    if manager is None:
        return _tell_own_python(options.action)
    try:
        folders.create()
        folders.tighten()
        if options.action == "status":
            return _status(manager, folders)
        if options.action == "remove":
            manager.remove()
            return 0
        return _install(manager, options)
    except (CoppiceError, OSError) as error:
        return _fail(str(error))


def _tell_own_python(action: str) -> int:
    words = "This Coppice uses the engine of its own Python; there is nothing to install."
    if action != "status":
        return _fail(words)
    print_line(words)
    return 0


def _build_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="coppice runtime", description="Install, repair or remove the engine that models run in."
    )
    actions = parser.add_subparsers(dest="action", required=True, parser_class=CommandParser)
    for name, about in (
        ("status", "say which engine is installed, and what could be"),
        ("install", "install the engine, or go on with it; the build that suits this computer, or --build"),
        ("repair", "install the same build anew"),
        ("remove", "take the engine away; chats and models stay"),
    ):
        action = actions.add_parser(name, help=about, description=about)
        action.add_argument("--data-dir", metavar="DIR", type=Path, help="holds everything the application writes")
        if name in ("install", "repair"):
            action.add_argument("--json", action="store_true", help="one JSON object a line on stdout")
            action.add_argument("--wheels", metavar="DIR", default="", help="a folder of wheels instead of the network")
        if name == "install":
            action.add_argument(
                "--build", choices=("cpu", "cuda", "rocm", "metal"), default="", help="what to compute on"
            )
    return parser


def _status(manager: RuntimeManager, folders: Folders) -> int:
    here, proposal, wanted = manager.installed(), manager.propose(), manager.to_resume()
    offers = [
        {"build": each.build.value, "bytes": each.download_bytes, "disk": each.disk_bytes()} for each in proposal.offers
    ]
    about = {
        "installed": here.build if here else None,
        "torch": here.torch if here else None,
        "python": str(here.python) if here else None,
        "outdated": manager.is_outdated(),
        "unfinished": wanted.build if wanted else None,
        "folder": str(folders.data / "runtime"),
        "offers": offers,
    }
    print_line(json.dumps(about, indent=1))
    return 0 if here else 1


def _install(manager: RuntimeManager, options: argparse.Namespace) -> int:
    installation = manager.repair(options.wheels) if options.action == "repair" else _asked_for(manager, options)
    if _follow(installation, options.json):
        print_note("Interrupted. What has arrived is kept: the same command goes on from there.")
        return INTERRUPTED
    progress = installation.progress
    if progress.stage is Stage.DONE:
        return _status_line(manager, options.json)
    return _fail(f"{progress.message} {progress.hint}".rstrip())


def _asked_for(manager: RuntimeManager, options: argparse.Namespace) -> Installation:
    best = manager.propose().best
    build = options.build or (best.build.value if best else "cpu")
    return manager.install(Wanted(build, options.wheels))


def _follow(installation: Installation, as_json: bool) -> bool:
    """Run it in a thread, so that Ctrl+C is heard at once; whether that was pressed."""
    thread = start("installation", installation.run)
    said = ""
    try:
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
            line = _json(installation.progress) if as_json else describe(installation.progress)
            if line != said and installation.progress.stage.is_running:
                said = line
                (print_line if as_json else print_note)(line)
    except KeyboardInterrupt:
        installation.leave()
        thread.join()
        return True
    return False


def _json(progress: InstallProgress) -> str:
    fetched = progress.fetched
    about = {"stage": progress.stage.value, "fraction": round(progress.fraction, 3)}
    return json.dumps(about | {"file": fetched.file, "bytes": fetched.bytes_done, "total": fetched.bytes_total})


def describe(progress: InstallProgress) -> str:
    """One line, such as `downloading  31%  80.1 MB of 249.0 MB  (the connection has stalled)`."""
    parts = [progress.stage.value, f"{progress.fraction:4.0%}"]
    if progress.stage is Stage.DOWNLOADING:
        parts.append(f"{size_text(progress.fetched.bytes_done)} of {size_text(progress.fetched.bytes_total)}")
        if progress.fetched.message:
            parts.append(f"({progress.fetched.message})")
    return "  ".join(parts)


def _status_line(manager: RuntimeManager, as_json: bool) -> int:
    here = manager.installed()
    assert here is not None
    about = {"stage": Stage.DONE.value, "build": here.build, "torch": here.torch, "python": str(here.python)}
    print_line(json.dumps(about) if as_json else str(here.python))
    return 0


def _fail(words: str) -> int:
    print_note(f"error: {words}")
    return BAD_INPUT
