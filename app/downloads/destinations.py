"""Where the files of a download go: the hub's standard cache, or a plain folder."""

import os
import shutil
from pathlib import Path
from typing import Protocol

from app.downloads.disk import Check, is_full, pieces, remove_partial
from app.hub.files import RemoteFile
from app.hub.place import HubPlace
from app.system.files import make_shared, share
from engine.files import retried, sync_folder, write_atomically


class Destination(Protocol):
    """The hub cache, or a plain folder. `folder` is the model's own when all is there."""

    folder: Path

    def has(self, file: RemoteFile, check: Check) -> bool:
        """Whether the complete file is there already."""

    def prepare(self) -> None:
        """Make the folders."""

    def partial(self, file: RemoteFile) -> Path:
        """Where the file lies while it arrives; the same in every session."""

    def keep(self, file: RemoteFile) -> None:
        """Make a partial file, which is complete and checked, one of the model's."""

    def finish(self) -> None:
        """Everything is there: make it known."""

    def clear(self, files: tuple[RemoteFile, ...]) -> None:
        """Remove what is partial of these files, unless another program downloads it, and folders that are empty."""


def remove_if_empty(*folders: Path) -> None:
    """Remove folders in this order, as far as they are there and empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            continue


class CacheDestination:
    """One commit of a model in the hub cache.

    A file is linked into the snapshot as soon as it is complete, so no blob is ever without a name; the branch points
    to the commit only when all is there, so that an update which is interrupted leaves the old version in use.
    Other tools and other users read the cache: its permissions are those that the person's umask means.
    """

    def __init__(self, place: HubPlace, repo_id: str, revision: str, commit: str) -> None:
        self._symlinks = place.symlinks
        self._repo = place.folder(repo_id)
        self._blobs = self._repo / "blobs"
        self._ref = self._repo / "refs" / revision if revision != commit else None
        self._commit = commit
        self.folder = self._repo / "snapshots" / commit

    def has(self, file: RemoteFile, check: Check) -> bool:
        """As a blob, or, where links do not work, in the snapshot itself; both are named by their content."""
        check()
        if _is_complete(self.folder / file.name, file):
            return True
        if not _is_complete(self._blobs / file.etag, file):
            return False
        self._link(file, is_new=False)
        return True

    def prepare(self) -> None:
        """A model without its snapshot is damaged in the eyes of other tools."""
        make_shared(self.folder)
        make_shared(self._blobs)

    def partial(self, file: RemoteFile) -> Path:
        """Beside the blob that it becomes."""
        return self._blobs / f"{file.etag}.incomplete"

    def keep(self, file: RemoteFile) -> None:
        """The blob first, then its name."""
        share(self.partial(file))
        retried(lambda: self.partial(file).replace(self._blobs / file.etag), patiently=True)
        sync_folder(self._blobs)
        self._link(file, is_new=True)

    def finish(self) -> None:
        """Let the branch point to the commit."""
        if self._ref is not None:
            make_shared(self._ref.parent)
            write_atomically(self._ref, self._commit.encode())
            share(self._ref)

    def clear(self, files: tuple[RemoteFile, ...]) -> None:
        """Remove what is partial."""
        for file in files:
            remove_partial(file, self.partial(file))
            remove_if_empty((self.folder / file.name).parent)
        remove_if_empty(self.folder, self.folder.parent, self._blobs, self._repo / "refs", self._repo)

    def _link(self, file: RemoteFile, is_new: bool) -> None:
        """Where links do not work, a new blob is moved, as the hub's client does; an older one may have other names."""
        blob, name = self._blobs / file.etag, self.folder / file.name
        make_shared(name.parent)
        name.unlink(missing_ok=True)
        if self._symlinks:
            try:
                name.symlink_to(Path(os.path.relpath(blob, name.parent)))
            except OSError as error:
                if is_full(error):
                    raise
                self._symlinks = False
        if not self._symlinks:
            if is_new:
                retried(lambda: blob.replace(name), patiently=True)
            else:
                shutil.copyfile(blob, name)
                share(name)
        sync_folder(name.parent)


def _is_complete(path: Path, file: RemoteFile) -> bool:
    try:
        return path.is_file() and path.stat().st_size == file.bytes
    except OSError:
        return False


class FolderDestination:
    """A folder that somebody named. What lies there already counts only when its checksum is right.

    It is flat: the parts of a model have names of their own, in whatever folder the hub keeps them.
    Its permissions are those that the person's umask means, unless the folder is the application's own (`is_private`).
    """

    def __init__(self, folder: Path, is_private: bool = False) -> None:
        self.folder = folder
        self._is_private = is_private
        self._known: set[RemoteFile] = set()

    def has(self, file: RemoteFile, check: Check) -> bool:
        """Reads the whole file, once: its name alone says nothing of its content."""
        path = self._path(file)
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
        return self._path(file).with_name(f"{self._path(file).name}.{file.etag}.incomplete")

    def keep(self, file: RemoteFile) -> None:
        """A file or link of that name is replaced, never written through."""
        if not self._is_private:
            share(self.partial(file))
        retried(lambda: self.partial(file).replace(self._path(file)), patiently=True)
        sync_folder(self.folder)
        self._known.add(file)

    def finish(self) -> None:
        """A plain folder says by its files alone that it is complete."""

    def clear(self, files: tuple[RemoteFile, ...]) -> None:
        """Remove what is partial."""
        for file in files:
            remove_partial(file, self.partial(file))
        remove_if_empty(self.folder)

    def _path(self, file: RemoteFile) -> Path:
        return self.folder / file.name.rpartition("/")[2]


def _is_genuine(path: Path, file: RemoteFile, check: Check) -> bool:
    checksum = file.checksum()
    with path.open("rb") as content:
        for piece in pieces(content, check):
            checksum.update(piece)
    return checksum.hexdigest() == file.etag
