"""One model on the hub, file by file: what is read of it before anything is downloaded."""

from dataclasses import dataclass
from typing import Any

from app.hub.client import HubClient, Part
from app.hub.listing import Listing
from app.hub.trouble import offline, unusable
from app.system.background import Stop
from app.system.json_text import parse_object

_MOST_TABLE_BYTES = 32 << 20
_FIRST_BYTES = 1 << 17  # holds most tables; the rest of a longer one is asked for


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """Hands out files of one commit, within bounds. Every method blocks; raises `HubError` and `Cancelled`."""

    client: HubClient
    listing: Listing
    stop: Stop

    @property
    def repo(self) -> str:
        """The model's name."""
        return self.listing.row.repo

    def file(self, name: str, most_bytes: int) -> bytes:
        """A whole file that is not larger than that."""
        listed = self.listing.files.get(name)
        if listed is None:
            raise unusable(self.repo, f"it has no {name}")
        if listed.bytes > most_bytes:
            raise unusable(self.repo, f"its {name} is larger than {most_bytes >> 20} MB")
        return self.client.file(self.repo, self.listing.row.revision, name, self.stop, most_bytes)

    def _part(self, name: str, first: int, number: int) -> Part:
        return self.client.part(self.repo, self.listing.row.revision, name, self.stop, first, number)

    def head(self, name: str) -> tuple[bytes, int]:
        """A safetensors file up to the end of its table, and the size of all of it."""
        begun = self._part(name, 0, _FIRST_BYTES)
        length = int.from_bytes(begun.content[:8], "little")
        if len(begun.content) < 8 or length > min(_MOST_TABLE_BYTES, begun.whole_bytes - 8):
            raise unusable(self.repo, f"{name} does not begin as a safetensors file does")
        missing = 8 + length - len(begun.content)
        rest = self._part(name, len(begun.content), missing).content if missing > 0 else b""
        head = (begun.content + rest)[: 8 + length]
        if len(head) < 8 + length:
            raise offline("the connection broke")
        return head, begun.whole_bytes

    def parsed(self, name: str, content: bytes) -> dict[str, Any]:
        """The object in the file `name`, whose content this is."""
        try:
            return parse_object(content)
        except ValueError as error:
            raise unusable(self.repo, f"its {name} cannot be read: {error}") from None
