"""The hub's standard cache: `models--org--name/{blobs,refs,snapshots}`, as the hub's own client writes it."""

import os
import shutil
from pathlib import Path

from app.downloads.destination import remove_if_empty
from app.downloads.disk import Check, is_full
from app.hub.place import HubPlace
from app.hub.plan import RemoteFile
from app.system.files import make_shared, share, sync_folder, write_atomically


class CacheDestination:
    """One commit of a model in the hub cache.

    A file is linked into the snapshot as soon as it is complete, so no blob is ever without a name; the branch points
    to the commit only when all is there, so that an update which is interrupted leaves the old version in use.
    Other tools and other users read the cache: its permissions are those that the person's umask means.
    """

    def __init__(self, place: HubPlace, repo_id: str, revision: str, commit: str) -> None:
        self._symlinks = place.symlinks
        self._repo = place.cache / f"models--{repo_id.replace('/', '--')}"
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
        self.partial(file).replace(self._blobs / file.etag)
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
            (self._blobs / f"{file.etag}.incomplete").unlink(missing_ok=True)
        remove_if_empty(self.folder, self.folder.parent, self._blobs, self._repo / "refs", self._repo)

    def _link(self, file: RemoteFile, is_new: bool) -> None:
        """Where links do not work, a new blob is moved, as the hub's client does; an older one may have other names."""
        blob, name = self._blobs / file.etag, self.folder / file.name
        make_shared(self.folder)
        name.unlink(missing_ok=True)
        if self._symlinks:
            try:
                name.symlink_to(Path(os.path.relpath(blob, self.folder)))
            except OSError as error:
                if is_full(error):
                    raise
                self._symlinks = False
        if not self._symlinks:
            if is_new:
                blob.replace(name)
            else:
                shutil.copyfile(blob, name)
                share(name)
        sync_folder(self.folder)


def _is_complete(path: Path, file: RemoteFile) -> bool:
    try:
        return path.is_file() and path.stat().st_size == file.bytes
    except OSError:
        return False
