"""What a model takes to read pictures, by its config.json: an estimate for the plan, which reads no weights."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.model.checkpoint import Checkpoint
from engine.protocol.pictures import PICTURE_FAMILIES

MOST_FEATURE_BYTES = 512 << 20  # of pictures of this and other chats, so that none is encoded twice
MOST_ROWS = 4096  # of the largest picture that memory is kept for; most models read what is shown them in fewer
USUAL_WIDTH, USUAL_PATCH, USUAL_MERGE = 1280, 14, 2  # where config.json tells nothing
MOST_WIDTH, MOST_SIDE, MOST_LEVELS = 1 << 14, 1 << 12, 16
STREAM_COPIES, INNER_COPIES = 10, 3  # of each patch, at the peak of a layer; `PATCH_BYTES` of each of its pixels
PATCH_BYTES = 3 * 2 * 4  # three colours, twice where an encoder takes pairs of frames, in float32


@dataclass(frozen=True, slots=True)
class PictureSizes:
    """Bytes. `encoding`: while one picture is encoded; `features`: of the largest one that memory is kept for."""

    encoding: int = 0
    features: int = 0


def picture_sizes(checkpoint: Checkpoint, hidden: int, value_bytes: int, context_tokens: int) -> PictureSizes:
    """What reading pictures takes in RAM, of which nothing is taken by a model that reads text alone.

    `hidden`: of the language model. The encoder has one layer in memory at a time, and what is outside of these.
    """
    if not _reads_pictures(checkpoint):
        return PictureSizes()
    vision = checkpoint.config.get("vision_config")
    own = vision if isinstance(vision, dict) else {}
    width = _number(own, ("embed_dim", "width", "hidden_size"), USUAL_WIDTH, MOST_WIDTH)
    inner = _number(own, ("intermediate_size",), 4 * width, 4 * MOST_WIDTH)
    patch = _number(own, ("patch_size",), USUAL_PATCH, MOST_SIDE)
    merge = _number({**checkpoint.config, **own}, ("spatial_merge_size",), USUAL_MERGE, MOST_SIDE)
    rows = min(MOST_ROWS, context_tokens)
    grid = (_number(own, ("image_size",), 0, MOST_SIDE) // patch) ** 2
    patches = max(rows * merge**2, grid)
    of_patch = (STREAM_COPIES * width + INNER_COPIES * inner) * value_bytes + PATCH_BYTES * patch**2
    layer = (4 * width + 3 * inner) * width
    joined = merge**2 * width  # what becomes one row
    deeper = own.get("deepstack_visual_indexes")
    levels = 1 + (min(len(deeper), MOST_LEVELS) if isinstance(deeper, list) else 0)
    outside = (
        (2 * patch**2 * 3 + grid) * width + levels * joined * (joined + hidden) + 3 * inner * hidden
    )  # some join rows by a gated one
    return PictureSizes((layer + outside) * value_bytes + patches * of_patch, rows * hidden * value_bytes * levels)


def _reads_pictures(checkpoint: Checkpoint) -> bool:
    """Whether they may be read; of GGUF files the encoder is in another one, and is taken for a usual one here."""
    if checkpoint.metadata:
        return checkpoint.encoder is not None
    return checkpoint.config.get("model_type") in PICTURE_FAMILIES


def _number(config: Mapping[str, object], names: tuple[str, ...], usual: int, most: int) -> int:
    """The first of these that config.json names as a number, or a list of them, within what any model has."""
    for name in names:
        value = config.get(name)
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most:
            return value
    return usual
