"""Search of the hub, page by page, and the list that the pages make up."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.hub.client import HubClient
from app.hub.rows import ModelRow, row_of
from app.hub.trouble import unusable
from app.system.background import Stop

_MOST_BYTES = 32 << 20
_EXPAND = (
    "cardData", "config", "downloads", "gated", "lastModified", "likes", "safetensors", "sha", "tags",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What is looked for. `words` are part of a model's name, `author` its owner; `sort` as the hub calls it."""

    words: str = ""
    author: str = ""
    sort: str = "downloads"
    page_rows: int = 50


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Some results, and the address of the next ones; empty after the last."""

    rows: tuple[ModelRow, ...]
    next_page: str = ""


def search(client: HubClient, query: SearchQuery, stop: Stop, next_page: str = "") -> SearchPage:
    """The first page of a search, or the one at `next_page`. Blocks; raises `HubError` and `Cancelled`."""
    if next_page:
        found, following = client.json(next_page, stop, _MOST_BYTES)
    else:
        asked = {
            "search": query.words.strip(),
            "author": query.author,
            "filter": ["text-generation", "safetensors"],
            "sort": query.sort,
            "limit": query.page_rows,
            "expand": list(_EXPAND),
        }
        given = {name: value for name, value in asked.items() if value}
        found, following = client.json("api/models", stop, _MOST_BYTES, given)
    if not isinstance(found, list):
        raise unusable(client.endpoint, "its answer is no list of models")
    return SearchPage(tuple(filter(None, map(row_of, found))), following)


class SearchResults:
    """The rows of all pages so far, each model once: what is popular moves while one pages."""

    def __init__(self) -> None:
        self.rows: list[ModelRow] = []
        self.next_page = ""
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, repo: str) -> int | None:
        """Where a model stands in the list."""
        return self._places.get(repo)

    def clear(self) -> None:
        """Forget everything, before another search."""
        self.rows.clear()
        self._places.clear()
        self.next_page = ""

    def add(self, page: SearchPage) -> range:
        """Append a page; returns the places of the rows that are new."""
        self.next_page = page.next_page
        return self._append(page.rows)

    def _append(self, rows: Iterable[ModelRow]) -> range:
        begin = len(self.rows)
        for row in rows:
            if row.repo not in self._places:
                self._places[row.repo] = len(self.rows)
                self.rows.append(row)
        return range(begin, len(self.rows))
