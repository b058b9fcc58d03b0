"""Search of the hub, page by page: rows read from its listing without trusting it, and the list of all pages."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.hub.client import HubClient
from app.hub.failures import unusable
from app.hub.formats import GGUF, OPENED, formats_of
from app.hub.names import is_repo_id
from app.system.background import Stop
from app.system.json_text import count, text
from engine.protocol.pictures import PICTURE_FAMILIES
from engine.protocol.sentences import say

_BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4,
    "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8,
}  # fmt: skip
_TASKS = ("", "text-generation", "image-text-to-text", "any-to-any")  # whose models write text
_TASKS_WITH_PICTURES = ("image-text-to-text", "any-to-any")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model of the hub. Numbers are 0 and texts empty where the hub says nothing.

    `weight_bytes`: what the safetensors files hold, about; `formats`: those of its weights, as people call them
    (`app.hub.formats`); `gated`: empty, `auto` or `manual`; `model_type`: the family that its config.json names;
    `task`: what the model is for, as the hub calls it; `sees`: it is for pictures, too; `revision`: the commit that all
    this is about.
    """

    repo: str
    revision: str = ""
    parameters: int = 0
    weight_bytes: int = 0
    formats: tuple[str, ...] = ()
    licence: str = ""
    gated: str = ""
    model_type: str = ""
    task: str = ""
    sees: bool = False

    @property
    def usable(self) -> bool:
        """Whether it writes text and holds weights that can be opened; the engine says the rest."""
        return self.task in _TASKS and (self.has_safetensors or self.has_variants)

    @property
    def reads_pictures(self) -> bool:
        """Whether its pictures are read, as far as the listing tells: those of GGUF files are not in these."""
        return self.sees and self.model_type in PICTURE_FAMILIES and self.has_safetensors

    @property
    def has_variants(self) -> bool:
        """Whether it holds GGUF files, of which a variant is chosen."""
        return GGUF in self.formats

    @property
    def has_safetensors(self) -> bool:
        """Whether it holds weights that are loaded by the name of the repository."""
        return any(each in OPENED for each in self.formats)


def row_of(described: object) -> ModelRow | None:
    """A row from one entry of the hub's listing; None for what has no usable name."""
    if not isinstance(described, dict):
        return None
    repo = described.get("id")
    if not isinstance(repo, str) or not is_repo_id(repo):
        return None
    sizes, tags = _sizes(described.get("safetensors")), _tags(described.get("tags"))
    config, commit = described.get("config"), described.get("sha")
    gated, gguf = described.get("gated"), described.get("gguf")
    task = text(described.get("pipeline_tag"), 60)
    is_gguf = isinstance(gguf, dict) and bool(gguf)
    return ModelRow(
        repo=repo,
        revision=commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else "",
        parameters=sum(sizes.values()) or (count(gguf.get("total")) if isinstance(gguf, dict) else 0),
        weight_bytes=sum(number * _BITS.get(kind, 16) // 8 for kind, number in sizes.items()),
        formats=formats_of(tags, config, sorted(sizes, key=lambda kind: -sizes[kind]), is_gguf),
        licence=_licence(described.get("cardData"), tags),
        gated=gated if isinstance(gated, str) and gated in ("auto", "manual") else ("manual" if gated is True else ""),
        model_type=_family(config, gguf),
        task=task,
        sees=any(each == task or each in tags for each in _TASKS_WITH_PICTURES),
    )


def _sizes(safetensors: object) -> dict[str, int]:
    """Numbers by their type."""
    parameters = safetensors.get("parameters") if isinstance(safetensors, dict) else None
    if not isinstance(parameters, dict):
        return {}
    return {text(kind, 20): count(number) for kind, number in list(parameters.items())[:20] if count(number)}


def _family(config: object, gguf: object) -> str:
    """As config.json calls it, else as GGUF does."""
    named = text(config.get("model_type"), 60) if isinstance(config, dict) else ""
    return named or (text(gguf.get("architecture"), 60) if isinstance(gguf, dict) else "")


def _tags(tags: object) -> set[str]:
    return {tag for tag in tags[:500] if isinstance(tag, str)} if isinstance(tags, list) else set()


def _licence(card: object, tags: set[str]) -> str:
    """A licence of its own has a name beside the word `other`."""
    described: Mapping[str, Any] = card if isinstance(card, dict) else {}
    licence = text(described.get("license"), 60)
    if licence == "other":
        return text(described.get("license_name"), 60) or licence
    return licence or next((text(tag[8:], 60) for tag in sorted(tags) if tag.startswith("license:")), "")


_MOST_BYTES = 32 << 20
_EXPAND = ["cardData", "config", "gated", "gguf", "pipeline_tag", "safetensors", "sha", "tags"]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What is looked for: `words` are part of a model's name."""

    words: str = ""
    page_rows: int = 50


@dataclass(frozen=True, slots=True)
class SearchPage:
    """Some results, and the address of the next ones; empty after the last."""

    rows: tuple[ModelRow, ...]
    next_page: str = ""


def search(client: HubClient, query: SearchQuery, stop: Stop, next_page: str = "") -> SearchPage:
    """The first page of a search, or the one at `next_page`, less what cannot be used.

    The hub is not asked to leave out anything: formats and tasks have several names there, and it knows no "or".
    Blocks; raises `HubError` and `Cancelled`.
    """
    if next_page:
        found, following = client.json(next_page, stop, _MOST_BYTES)
    else:
        asked = {"sort": "downloads", "limit": query.page_rows, "expand": _EXPAND}
        named = {"search": words} if (words := query.words.strip()) else {}
        found, following = client.json("api/models", stop, _MOST_BYTES, named | asked)
    if not isinstance(found, list):
        raise unusable(client.endpoint, say("its answer is no list of models"))
    return SearchPage(tuple(row for row in map(row_of, found) if row is not None and row.usable), following)


class SearchResults:
    """The rows of all pages so far, each model once: what is popular moves while one pages."""

    def __init__(self) -> None:
        self.rows: list[ModelRow] = []
        self.next_page = ""
        self._known: set[str] = set()

    def __len__(self) -> int:
        return len(self.rows)

    def clear(self) -> None:
        """Forget everything, before another search."""
        self.rows.clear()
        self._known.clear()
        self.next_page = ""

    def add(self, page: SearchPage) -> range:
        """Append a page; returns the places of the rows that are new."""
        self.next_page, begin = page.next_page, len(self.rows)
        for row in page.rows:
            if row.repo not in self._known:
                self._known.add(row.repo)
                self.rows.append(row)
        return range(begin, len(self.rows))
