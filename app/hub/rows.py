"""A model in a list: what the hub's listing tells of it, with nothing taken on trust."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.hub.client import REPO
from app.system.json_text import count, text

_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8}
_OTHER_FORMATS = ("gguf", "gptq", "awq", "exl2", "mlx", "onnx", "bitsandbytes", "fp8")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model of the hub. Numbers are 0 and texts empty where the hub says nothing.

    `weight_bytes`: what the safetensors files hold, about; `number_types`: such as `BF16`; `formats`: `safetensors`,
    and what else the model is tagged with; `gated`: empty, `auto` or `manual`; `updated`: ISO 8601; `model_type`: the
    family that its config.json names; `revision`: the commit that all this is about.
    """

    repo: str
    revision: str = ""
    parameters: int = 0
    weight_bytes: int = 0
    number_types: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    licence: str = ""
    gated: str = ""
    downloads: int = 0
    likes: int = 0
    updated: str = ""
    model_type: str = ""

    @property
    def usable(self) -> bool:
        """Whether it holds weights that can be opened; the engine says the rest."""
        return "safetensors" in self.formats


def row_of(described: object) -> ModelRow | None:
    """A row from one entry of the hub's listing; None for what has no usable name."""
    if not isinstance(described, dict):
        return None
    repo = described.get("id")
    if not isinstance(repo, str) or len(repo) > 200 or not REPO.fullmatch(repo):
        return None
    sizes, tags = _sizes(described.get("safetensors")), _tags(described.get("tags"))
    config, commit = described.get("config"), described.get("sha")
    gated = described.get("gated")
    return ModelRow(
        repo=repo,
        revision=commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else "",
        parameters=sum(sizes.values()),
        weight_bytes=sum(number * _BITS.get(kind, 16) // 8 for kind, number in sizes.items()),
        number_types=tuple(sorted(sizes, key=lambda kind: -sizes[kind])),
        formats=tuple(kind for kind in ("safetensors", *_OTHER_FORMATS) if kind in tags),
        licence=_licence(described.get("cardData"), tags),
        gated=gated if isinstance(gated, str) and gated in ("auto", "manual") else ("manual" if gated is True else ""),
        downloads=count(described.get("downloads")),
        likes=count(described.get("likes")),
        updated=text(described.get("lastModified"), 40),
        model_type=text(config.get("model_type"), 60) if isinstance(config, dict) else "",
    )


def _sizes(safetensors: object) -> dict[str, int]:
    """Numbers by their type."""
    parameters = safetensors.get("parameters") if isinstance(safetensors, dict) else None
    if not isinstance(parameters, dict):
        return {}
    return {text(kind, 20): count(number) for kind, number in list(parameters.items())[:20] if count(number)}


def _tags(tags: object) -> set[str]:
    return {tag for tag in tags[:500] if isinstance(tag, str)} if isinstance(tags, list) else set()


def _licence(card: object, tags: set[str]) -> str:
    """A licence of its own has a name beside the word `other`."""
    described: Mapping[str, Any] = card if isinstance(card, dict) else {}
    licence = text(described.get("license"), 60)
    if licence == "other":
        return text(described.get("license_name"), 60) or licence
    return licence or next((text(tag[8:], 60) for tag in sorted(tags) if tag.startswith("license:")), "")
