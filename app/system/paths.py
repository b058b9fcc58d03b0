"""Where the application keeps its files, and where the files it ships lie."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from app.system.bundle import is_frozen, root
from app.system.files import tighten, tighten_alone

ROOT = root()
RESOURCES = ROOT / "resources"

_APP_NAME = "coppice"


@dataclass(frozen=True, slots=True)
class Folders:
    """The four folders the application writes to, and nowhere else."""

    config: Path
    data: Path
    cache: Path
    logs: Path

    @property
    def settings_file(self) -> Path:
        """The file that holds what a person has set."""
        return self.config / "settings.json"

    @property
    def chats_file(self) -> Path:
        """The database of all conversations."""
        return self.data / "chats.sqlite3"

    @property
    def engine_log(self) -> Path:
        """What the engine process printed."""
        return self.logs / "engine.log"

    @property
    def tool_servers_file(self) -> Path:
        """The MCP servers that a person has entered."""
        return self.config / "mcp.json"

    @property
    def tool_servers_log(self) -> Path:
        """What the program that holds connections to them printed."""
        return self.logs / "tool-servers.log"

    @property
    def application_log(self) -> Path:
        """What the window's process had to report."""
        return self.logs / "coppice.log"

    @property
    def downloads_file(self) -> Path:
        """The downloads that are not over yet."""
        return self.data / "downloads.json"

    def create(self) -> None:
        """Make the folders that are missing. Raises `OSError` where that is not allowed."""
        for folder in self._all:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def tighten(self) -> None:
        """Take what other users may do from files that are there already; earlier versions let them read."""
        for folder in self._all:
            tighten(folder)
        for above in {folder.parent for folder in self._all}:
            if above.name == _APP_NAME or all(each in self._all for each in above.iterdir()):
                tighten_alone(above)  # it holds nothing else

    @property
    def _all(self) -> tuple[Path, ...]:
        return self.config, self.data, self.cache, self.logs


def expanded(path: str | Path) -> Path:
    """The path with its `~` filled in; as it stands, and so no full one, where that names nobody on this computer."""
    given = Path(path)
    first = given.parts[0] if given.parts else ""
    try:
        # Windows takes every name for that of a folder beside one's own home, whether there is one or not.
        if os.name == "nt" and first.startswith("~") and first != "~" and not Path(first).expanduser().is_dir():
            return given
        return given.expanduser()
    except (OSError, RuntimeError):
        return given


def is_file(path: Path) -> bool:
    """Whether there is a file; not, where nobody may look, or where a share has gone."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """The same for a folder."""
    try:
        return path.is_dir()
    except OSError:
        return False


def folders_below(data_dir: Path) -> Folders:
    """All four folders inside one that was named on the command line."""
    root = expanded(data_dir).absolute()
    return Folders(root / "config", root / "data", root / "cache", root / "logs")


def platform_folders() -> Folders:
    """The folders this platform means for settings, data, caches and logs."""
    places = platformdirs.PlatformDirs(_APP_NAME, appauthor=False)
    return Folders(places.user_config_path, places.user_data_path, places.user_cache_path, places.user_log_path)


def program_on_path(name: str) -> Path | None:
    """A program in one of the folders that PATH names in full; None where none has it.

    Never one of the folder where the person happens to be, where Windows looks first: it may have come with a model.
    """
    file = f"{name}.exe" if os.name == "nt" else name
    folders = map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep))
    found = (shutil.which(str(folder / file)) for folder in folders if folder.is_absolute())
    return next((Path(each) for each in found if each), None)


def program_folder() -> Path:
    """Where the program lies: the bundle's folder, or the checkout."""
    return Path(sys.executable).parent if is_frozen() else ROOT


def portable_folder() -> Path:
    """The folder beside the program that, if it is there, holds everything the application writes."""
    return program_folder() / "coppice-data"


def chosen_folders(data_dir: Path | None, portable: bool = False) -> Folders:
    """Those that are named, else those beside the program if they are there or wanted, else the platform's."""
    if data_dir is not None:
        return folders_below(data_dir)
    return folders_below(portable_folder()) if portable or portable_folder().is_dir() else platform_folders()


def resource(*parts: str) -> Path:
    """The path of a shipped file, such as `resource("icons", "coppice.svg")`."""
    return RESOURCES.joinpath(*parts)
