"""Where a target's layers are read from, and what turns their bytes into weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.model.layer_converter import LayerConverter
from engine.weights.codecs.codec import Decoder, codec_named
from engine.weights.codecs.packed import Packed
from engine.weights.store.layout import LayerLayout, layout_of_shards


@dataclass(frozen=True, slots=True)
class StoredLayers:
    """The layouts of all layers, and a decoder for each; None where the stored bytes are the weights."""

    layouts: Sequence[LayerLayout]
    decoders: Sequence[Decoder] | None


def in_shards(converter: LayerConverter, stay_stored: bool = False) -> StoredLayers | None:
    """The layers inside the checkpoint's own files, packed ones as they are; None if they must be converted first.

    `stay_stored`: see `by_codec`.

    Layers that are put together without being packed count as to be converted: once that is done, nothing is to be done
    for every pass.
    """
    if any(converter.is_packed(index) for index in range(len(converter))):
        return _packed(converter)
    layouts = []
    for index in range(len(converter)):
        places = converter.one_to_one(index)
        layout = layout_of_shards(index, places) if places else None
        if layout is None:
            return None
        layouts.append(layout)
    return by_codec(layouts, converter, stay_stored)


def by_codec(layouts: Sequence[LayerLayout], converter: LayerConverter, stay_stored: bool = False) -> StoredLayers:
    """Layers that are stored by the codecs that their layouts name.

    `stay_stored`: loops multiply with them where they lie, even where stored bytes are the weights.
    """
    if not stay_stored and _are_weights(layouts, converter):
        return StoredLayers(layouts, None)
    return StoredLayers(layouts, [codec_named(layout.codec) for layout in layouts])


def _packed(converter: LayerConverter) -> StoredLayers | None:
    layouts, decoders = [], []
    for index in range(len(converter)):
        assemblies = converter.assemblies(index)
        decoder = Packed(assemblies) if assemblies else None
        layout = layout_of_shards(index, decoder.entries()) if decoder else None
        if decoder is None or layout is None:
            return None
        layouts.append(replace(layout, codec=Packed.name))
        decoders.append(decoder)
    return StoredLayers(layouts, decoders)


def _are_weights(layouts: Sequence[LayerLayout], converter: LayerConverter) -> bool:
    """Whether every stored tensor can be used as a weight in place: same number type, and aligned."""
    for layout in layouts:
        shapes = converter.shapes(layout.index)
        for entry in layout.tensors:
            if entry.name not in shapes or shapes[entry.name][1] != entry.dtype or not entry.is_aligned:
                return False
    return True
