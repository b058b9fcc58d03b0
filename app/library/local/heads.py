"""Heads that guess tokens for a larger model: those that come with it, and EAGLE-3's, told from files without torch.

A head is one decoder layer that reads what the model has computed. Some models are published with such layers
(DeepSeek-V3, arXiv 2412.19437); EAGLE-3's (arXiv 2503.01840) are trained for a model later, and lie in folders of their
own.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from app.hub.names import INDEX, SINGLE
from app.system.json_text import count, parse_object, read_object
from engine.errors import ModelError
from engine.gguf_header import read_beginning
from engine.protocol.heads import SPECULATOR_LAYER, is_eagle3

_CONFIG = "config.json"
_MOST_BYTES = 64 << 20
_PREFIX_BYTES = 8  # before the table of a safetensors file: its length
# The projection that joins a token with what was computed before it, as Qwen, MiMo, and DeepSeek and GLM name it.
_PROJECTION = re.compile(
    r"mtp\.fc\.\w+|model\.mtp\.layers\.0\.eh_proj\.\w+|(?:.*\.)?layers\.(?P<layer>\d+)\.eh_proj\.\w+", re.ASCII
)


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """What a folder has to do with heads.

    `hidden` and `vocabulary`: sizes of the language model, or of the one that a head was made for; 0 where config.json
    says nothing. `brings_heads`: it has heads of its own; `is_head`: it is nothing but a head.
    """

    hidden: int = 0
    vocabulary: int = 0
    brings_heads: bool = False
    is_head: bool = False

    def fits(self, target: "HeadFacts") -> bool:
        """Whether this is a head, and the target as large as the one that it was made for, as far as is known."""
        same = self.hidden == target.hidden > 0 and (self.vocabulary == target.vocabulary or not target.vocabulary)
        return same and self.is_head and not target.is_head


NO_HEADS = HeadFacts()


def read_target(place: Path) -> HeadFacts:
    """The facts of a model that may be drafted for: a folder, if only with the beginnings of its files, or a GGUF file.

    Of a GGUF file only its width, and nothing of what cannot be read: whoever opens it says why.
    """
    try:
        if place.is_file():
            beginning = read_beginning(place)
            return HeadFacts(count(beginning.metadata.get(f"{beginning.architecture}.embedding_length")))
        facts, layers = _from_config(place)
        return replace(facts, brings_heads=not facts.is_head and _has_projection(_tensor_names(place), layers))
    except (OSError, ValueError, ModelError):
        return NO_HEADS


def read_candidate(place: Path) -> HeadFacts:
    """The facts of a model that may draft: whether it is a head, and for what size; not whether it brings heads."""
    try:
        return _from_config(place)[0]
    except (OSError, ValueError):
        return NO_HEADS


def _from_config(folder: Path) -> tuple[HeadFacts, int]:
    """What config.json tells, and its number of layers."""
    config = read_object(folder / _CONFIG, _MOST_BYTES)
    text, layer = config.get("text_config"), config.get(SPECULATOR_LAYER)
    is_head = is_eagle3(config)
    config |= text if isinstance(text, dict) else layer if isinstance(layer, dict) else {}
    hidden = count(config.get("target_hidden_size") if is_head else 0) or count(config.get("hidden_size"))
    facts = HeadFacts(hidden, count(config.get("vocab_size")), is_head=is_head)
    return facts, count(config.get("num_hidden_layers"))


def _has_projection(names: Iterable[str], layers: int) -> bool:
    """Where heads are numbered as layers are, the first one stands behind the last layer."""
    found = (match for name in names if (match := _PROJECTION.fullmatch(name)))
    return any(match["layer"] is None or int(match["layer"]) == layers > 0 for match in found)


def _tensor_names(folder: Path) -> Iterable[str]:
    """As the engine reads them: a single file comes before an index."""
    if (folder / SINGLE).is_file():
        return _table(folder / SINGLE)
    weight_map = read_object(folder / INDEX, _MOST_BYTES).get("weight_map")
    return weight_map if isinstance(weight_map, dict) else ()


def _table(path: Path) -> Mapping[str, object]:
    """The table of a safetensors file."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_PREFIX_BYTES), "little")
        if length > _MOST_BYTES:
            raise ValueError("the table is too large")
        return parse_object(file.read(length))
