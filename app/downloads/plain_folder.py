"""A plain folder as a model's place: the files by their own names, nothing else."""

from pathlib import Path

from app.downloads.destination import remove_if_empty
from app.downloads.disk import Check
from app.hub.plan import RemoteFile
from app.system.files import make_shared, share, sync_folder

_PIECE_BYTES = 4 << 20


class FolderDestination:
    """A folder that somebody named. What lies there already counts only when its checksum is right.

    Its permissions are those that the person's umask means, unless the folder is the application's own (`is_private`).
    """

    def __init__(self, folder: Path, is_private: bool = False) -> None:
        self.folder = folder
        self._is_private = is_private
        self._known: set[RemoteFile] = set()

    def has(self, file: RemoteFile, check: Check) -> bool:
        """Reads the whole file, once: its name alone says nothing of its content."""
        path = self.folder / file.name
        if file in self._known:
            return True
        if path.is_symlink() or not path.is_file() or path.stat().st_size != file.bytes:
            return False
        if _is_genuine(path, file, check):
            self._known.add(file)
            return True
        return False

    def prepare(self) -> None:
        """The folder itself."""
        if self._is_private:
            self.folder.mkdir(parents=True, exist_ok=True)
        else:
            make_shared(self.folder)

    def partial(self, file: RemoteFile) -> Path:
        """Beside the file that it becomes."""
        return self.folder / f"{file.name}.{file.etag}.incomplete"

    def keep(self, file: RemoteFile) -> None:
        """A file or link of that name is replaced, never written through."""
        if not self._is_private:
            share(self.partial(file))
        self.partial(file).replace(self.folder / file.name)
        sync_folder(self.folder)
        self._known.add(file)

    def finish(self) -> None:
        """A plain folder says by its files alone that it is complete."""

    def clear(self, files: tuple[RemoteFile, ...]) -> None:
        """Remove what is partial."""
        for file in files:
            self.partial(file).unlink(missing_ok=True)
        remove_if_empty(self.folder)


def _is_genuine(path: Path, file: RemoteFile, check: Check) -> bool:
    checksum = file.checksum()
    with path.open("rb") as content:
        while piece := content.read(_PIECE_BYTES):
            check()
            checksum.update(piece)
    return checksum.hexdigest() == file.etag
