"""`mcp.json`: the MCP servers that a person has entered, in a file as other programs have it, for its owner alone."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from app.i18n.sentences import reason_text
from app.system import json_text as json
from app.system.files import write_private
from app.tools.entry import ToolServer, entry_of, record_of
from engine.files import file_state

MOST_BYTES = 4 << 20
MOST_SERVERS = 100
_SERVERS = "mcpServers"
_log = logging.getLogger(__name__)


class ServerFile:
    """The servers, in the file's order; every change is written at once, onto what the file holds by then.

    What other programs have written into it stays. `set_aside`: where a file lies that could not be read, and `reason`
    why; `failure`: why it could not be written, until it could be.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = file_state(path)
        self._document: dict[str, Any] = {}
        self.set_aside: Path | None = None
        self.reason = self.failure = ""
        self._read()

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self._path

    @property
    def servers(self) -> tuple[ToolServer, ...]:
        """Those that can be used; of others, the records stay in the file."""
        found = (entry_of(name, record) for name, record in self._records.items())
        return tuple(each for each in found if each is not None)[:MOST_SERVERS]

    def server(self, name: str) -> ToolServer | None:
        """The one of this name."""
        return entry_of(name, self._records.get(name))

    def refresh(self) -> bool:
        """Read it again if somebody else has written it; returns whether that was so."""
        if file_state(self._path) == self._state:
            return False
        self._read()
        return True

    def put(self, server: ToolServer, former: str = "") -> None:
        """Keep a server, in the place of the one of its name, or of its `former` name."""
        self.refresh()
        records = dict(self._records)
        before = records.get(former or server.name)
        record = record_of(server, before if isinstance(before, dict) else {})
        if former in records and former != server.name:
            records.pop(server.name, None)
            records = {server.name if name == former else name: each for name, each in records.items()}
        self._keep(records | {server.name: record})

    def remove(self, name: str) -> Callable[[], None]:
        """Take a server out; returns what puts it back where it was."""
        self.refresh()
        before = self._records
        record = before.get(name)
        self._keep({each: kept for each, kept in before.items() if each != name})

        def undo() -> None:
            self.refresh()
            now = self._records
            order = [*before, *(each for each in now if each not in before)]
            back = {name: record, **now}
            self._keep({each: back[each] for each in order if each in back})

        return undo

    @property
    def _records(self) -> Mapping[str, Any]:
        records = self._document.get(_SERVERS)
        return records if isinstance(records, dict) else {}

    def _keep(self, records: dict[str, Any]) -> None:
        self._document = self._document | {_SERVERS: records}
        try:
            write_private(self._path, (json.dumps(self._document, indent=2) + "\n").encode())
        except OSError as error:
            _log.warning("The list of tool servers could not be written to %s: %s", self._path, error)
            self.failure = reason_text(error)
        else:
            self.failure = ""
            self._state = file_state(self._path)

    def _read(self) -> None:
        self._state = file_state(self._path)
        try:
            self._document = json.read_object(self._path, MOST_BYTES)
        except FileNotFoundError:
            self._document = {}
        except (OSError, ValueError) as error:
            self._document = {}
            self.reason, self.set_aside = reason_text(error), self._put_aside(error)

    def _put_aside(self, error: Exception) -> Path:
        """Move it away, never to be overwritten; returns where it lies now."""
        aside = self._path.with_suffix(".damaged.json")
        _log.warning("The tool servers in %s cannot be read: %s", self._path, error)
        try:
            self._path.replace(aside)
        except OSError as failure:
            _log.warning("The file could not be moved: %s", failure)
            return self._path
        return aside
