"""The longest sequence that a model was made for: one rule, for what is planned and for what is loaded."""

from typing import Any

UNKNOWN = 4096  # tokens, for a kind of model whose configuration has no such number


def longest_sequence(stated: object, model_type: object) -> int:
    """In tokens: what config.json states as `max_position_embeddings`, else what transformers takes for this kind.

    A model without the number is loaded with the default of its configuration class, and its positions are made for
    that.
    """
    if type(stated) is int and stated > 0:
        return stated
    usual = _usual(model_type) if isinstance(model_type, str) else None
    return usual if type(usual) is int and usual > 0 else UNKNOWN


def _usual(model_type: str) -> Any:
    from transformers import CONFIG_MAPPING  # noqa: PLC0415  # takes seconds, and few models need it

    try:
        config = CONFIG_MAPPING[model_type]()
        return getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    except Exception:  # noqa: BLE001  # of any of some hundred classes: the model itself is refused elsewhere, in words
        return None
