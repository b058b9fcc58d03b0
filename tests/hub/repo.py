"""One model repository of the loopback hub, as its API describes it."""

import functools
import hashlib
from dataclasses import dataclass, field
from typing import Any

LFS_FROM_BYTES = 1 << 20
DATE = "2026-01-02T03:04:05.000Z"


@functools.lru_cache(maxsize=256)
def git_blob_id(content: bytes) -> str:
    """The name that git gives a file of this content: 40 hexadecimal digits."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@functools.lru_cache(maxsize=256)
def sha256(content: bytes) -> str:
    """64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


@dataclass
class Repo:
    """A repository with one commit. `files` maps names to contents, hostile names included.

    `gated` is False, "auto" or "manual"; then `access` says what each token may: "accepted", "pending", "rejected", or
    nothing when the licence was never accepted. Of a private repository, only tokens that are "accepted" know.
    `announced` are sizes that the listing claims instead of the true ones; `blob_ids` likewise for names of blobs.
    `details` is merged into the API's answer last, so that any field can be set.
    """

    id: str
    files: dict[str, bytes]
    gated: bool | str = False
    private: bool = False
    disabled: bool = False
    access: dict[str, str] = field(default_factory=dict)
    licence: str = "apache-2.0"
    downloads: int = 100
    announced: dict[str, int] = field(default_factory=dict)
    blob_ids: dict[str, str] = field(default_factory=dict)
    branches: tuple[str, ...] = ("main",)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """The commit's name; it follows from the contents."""
        state = "\n".join(f"{name} {git_blob_id(content)}" for name, content in sorted(self.files.items()))
        return hashlib.sha1(f"{self.id}\n{state}".encode(), usedforsecurity=False).hexdigest()

    def has_revision(self, revision: str) -> bool:
        """Whether a branch, a tag or the commit goes by that name."""
        return revision in (*self.branches, self.commit)

    def is_lfs(self, name: str) -> bool:
        """Whether the file is kept in large-file storage."""
        return name.endswith((".safetensors", ".gguf")) or len(self.files[name]) > LFS_FROM_BYTES

    def etag(self, name: str) -> str:
        """What the blob is called in a cache: SHA-256 for an LFS file, git's own id for any other."""
        content = self.files[name]
        return self.blob_ids.get(name) or (sha256(content) if self.is_lfs(name) else git_blob_id(content))

    def sibling(self, name: str) -> dict[str, Any]:
        """One entry of `siblings`, with the metadata that `blobs=true` adds."""
        size = self.announced.get(name, len(self.files[name]))
        entry: dict[str, Any] = {"rfilename": name, "size": size, "blobId": git_blob_id(self.files[name])}
        if self.is_lfs(name):
            entry["lfs"] = {"sha256": self.etag(name), "size": size, "pointerSize": 134}
        elif name in self.blob_ids:
            entry["blobId"] = self.blob_ids[name]
        return entry

    def tree_entry(self, name: str) -> dict[str, Any]:
        """One entry of the tree listing."""
        sibling = self.sibling(name)
        entry = {"type": "file", "path": name, "size": sibling["size"], "oid": sibling["blobId"]}
        if "lfs" in sibling:
            entry["lfs"] = {"oid": sibling["lfs"]["sha256"], "size": sibling["size"], "pointerSize": 134}
        return entry

    def info(self, blobs: bool = False) -> dict[str, Any]:
        """What the API tells about the model."""
        names = sorted(self.files)
        described: dict[str, Any] = {
            "_id": self.commit[:24],
            "id": self.id,
            "modelId": self.id,
            "author": self.id.partition("/")[0],
            "sha": self.commit,
            "lastModified": DATE,
            "createdAt": DATE,
            "private": self.private,
            "gated": self.gated,
            "disabled": self.disabled,
            "downloads": self.downloads,
            "likes": self.downloads // 10,
            "library_name": "transformers",
            "pipeline_tag": "text-generation",
            "tags": ["transformers", "safetensors", "text-generation", f"license:{self.licence}"],
            "cardData": {"license": self.licence},
            "siblings": [self.sibling(name) if blobs else {"rfilename": name} for name in names],
        }
        return described | self.details
