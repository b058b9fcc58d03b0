"""Language models whose tokens stand on several axes once they read pictures: time, height and width.

Of text all axes are the same, so without pictures their files are read as networks that know one position alone.
"""

from collections.abc import Mapping
from types import MappingProxyType

from engine.model.gguf.header import GgufHeader
from engine.model.gguf.settings import Settings

SECTIONS, AXES = "rope.dimension_sections", 3
WITH_AXES: Mapping[str, str] = MappingProxyType(
    {
        "glm4moe": "glm4v_moe_text",
        "qwen2vl": "qwen2_5_vl_text",
        "qwen3vl": "qwen3_vl_text",
        "qwen3vlmoe": "qwen3_vl_moe_text",
    }
)
"""The model_type of the network that knows them, by `general.architecture`."""
INTERLEAVED = ("qwen3vl", "qwen3vlmoe")


def with_axes(header: GgufHeader, config: Mapping[str, object], name: str) -> dict[str, object]:
    """The config of the model called `name` as of one that reads pictures; most are the same.

    Raises `ModelError` where a file says sections of axes that cannot be.
    """
    kind, settings = WITH_AXES.get(header.architecture), Settings(header, name)
    sections = [section for section in settings.several(SECTIONS) if section]
    rope = config.get("rope_parameters")
    if kind is None or not sections or not isinstance(rope, dict):
        return dict(config)
    if len(sections) != AXES or not all(type(section) is int and section > 0 for section in sections):
        raise settings.refused(SECTIONS)
    head_dim, part = config.get("head_dim"), rope.get("partial_rotary_factor", 1.0)
    if not isinstance(head_dim, int) or 2 * sum(map(int, sections)) != round(head_dim * part):
        raise settings.refused(SECTIONS)
    axes: dict[str, object] = {"mrope_section": sections}
    if header.architecture in INTERLEAVED:
        axes["mrope_interleaved"] = True
    return {**config, "model_type": kind, "rope_parameters": {**rope, **axes}}
