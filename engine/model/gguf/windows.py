"""Which layers of a network see a window of the past alone, from a GGUF file's metadata."""

from engine.model.gguf.settings import Settings, predicting_layers

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def windows(settings: Settings, usual: int, first: int = -1) -> dict[str, object]:
    """The window and the kinds of layers: every layer has the window but each `usual`th, unless the file says more.

    `first`: the layer that they are counted from, behind the last before the first one.
    """
    window = settings.whole("attention.sliding_window")
    layers = settings.whole("block_count") - predicting_layers(settings)
    said = settings.several("attention.sliding_window_pattern")
    every = usual if said else settings.whole("attention.sliding_window_pattern", usual)
    if not every or (said and len(said) < layers):
        raise settings.refused("attention.sliding_window_pattern")
    slides = [bool(said[index]) if said else (index - first) % every != 0 for index in range(layers)]
    return {"sliding_window": window, "layer_types": [SLIDING if slide else FULL for slide in slides]}
