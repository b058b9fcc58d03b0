"""EAGLE-3 heads (arXiv 2503.01840) as their config.json tells them: the window lists them, the engine opens them."""

import re
from collections.abc import Mapping

SPECULATOR_LAYER = "transformer_layer_config"  # where the library `speculators` describes the layer of a head
_NAMES = re.compile(
    r"eagle-?3", re.IGNORECASE
)  # `LlamaForCausalLMEagle3`, `Eagle3LlamaForCausalLM`, `Eagle3Speculator`


def is_eagle3(config: Mapping[str, object]) -> bool:
    """Whether a config.json is that of an EAGLE-3 head."""
    named = config.get("architectures")
    return isinstance(named, list) and any(isinstance(name, str) and _NAMES.search(name) for name in named)
