"""The settings of a network in a GGUF file's metadata, checked as they are asked for."""

import struct
from collections.abc import Mapping
from types import MappingProxyType

from engine.errors import ModelError
from engine.gguf_header import FETCH_AGAIN, LazyArray
from engine.model.gguf.header import GgufHeader
from engine.protocol.sentences import say, shown

LARGEST_FLOAT32 = 3.4e38
MAX_LIST = 4096  # elements of a list with an entry for each layer
BASE, SLIDING_BASE = "rope.freq_base", "rope.freq_base_swa"
ALSO_CALLED: Mapping[str, str] = MappingProxyType(
    {
        BASE: "rope.global.freq_base",
        SLIDING_BASE: "rope.local.freq_base",
        "rope.scaling.yarn_beta_fast": "rope.scaling.beta_fast",
        "rope.scaling.yarn_beta_slow": "rope.scaling.beta_slow",
        "rope.scaling.yarn_log_multiplier": "rope.scaling.mscale_all_dim",
        "attention.temperature_scale": "rope.scaling_beta",
        "rope.dimension_sections": "rope.mrope_section",
    }
)
"""What Ollama's own converter calls some entries (of Gemma 3, Mistral 3 and Qwen 2.5 VL)."""
SAID_WITHOUT = "deepseek4"  # whose files may say how many layers predict further tokens, and have none
FACTOR = (0, 1)
HARMLESS: Mapping[str, tuple[int | str, ...]] = MappingProxyType(
    {
        "attention.causal": (True,),
        "attention.sliding_window": (0,),
        "rope.scaling.type": ("none", ""),
        "swin_norm": (False,),
        "norm_top_k_prob": (True,),
        **dict.fromkeys(("attention.clamp_kqv", "attention.max_alibi_bias", "attention.temperature_scale"), (0,)),
        **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping", "router_logit_softcapping"), (0,)),
        **dict.fromkeys(("swiglu_clamp_exp", "swiglu_clamp_shexp", "attention.shared_kv_layers"), (0,)),
        **dict.fromkeys(("embedding_scale", "residual_scale", "logit_scale", "attention.output_scale"), FACTOR),
        **dict.fromkeys(("attention.value_scale", "expert_weights_scale", "expert_group_scale"), FACTOR),
        **dict.fromkeys(("expert_group_count", "experts_per_group", "hyper_connection.count"), FACTOR),
    }
)
"""Entries that change what networks compute, and what they may say of one that does not know them."""


class Settings:
    """The entries that begin with the name of the architecture; all methods take the rest of the name."""

    def __init__(self, header: GgufHeader, name: str) -> None:
        """`name` is what people call the model."""
        self.architecture = header.architecture
        self._metadata: Mapping[str, object] = header.metadata
        self._tensors = header.tensors.keys()
        self._name = name
        self._asked: set[str] = set()

    def has(self, key: str) -> bool:
        """Whether there is such an entry."""
        return self._value(key) is not None

    def holds(self, tensor: str) -> bool:
        """Whether the file has a tensor of this whole name."""
        return tensor in self._tensors

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number from 0 on, or a list in which all layers have the same; without a default it must be there."""
        value = self._value(key)
        if value is None and default is not None:
            return default
        if isinstance(value, LazyArray):
            numbers = set(self.several(key))
            value = numbers.pop() if len(numbers) == 1 else value
        if type(value) is not int or value < 0:
            raise self.refused(key)
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """A truth; `default` where the file says nothing."""
        value = self._value(key)
        if value is not None and not isinstance(value, bool):
            raise self.refused(key)
        return default if value is None else value

    def real(self, key: str, default: float | None = None) -> float:
        """A number; without a default it must be there."""
        value = self._value(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.refused(key)
        return shortest(float(value))

    def text(self, key: str) -> str:
        """A string; empty if it is not there."""
        value = self._value(key)
        return value if isinstance(value, str) else ""

    def several(self, key: str) -> tuple[int | float | bool | str, ...]:
        """A list of moderate length; empty if there is none."""
        value = self._value(key)
        if not isinstance(value, LazyArray):
            return ()
        if value.count > MAX_LIST:
            raise self.refused(key)
        return tuple(value.read())

    def require_asked(self, turns: bool) -> None:
        """Raise `ModelError` for an entry that changes what a network computes, and that nobody has asked for by now.

        `turns`: whether positions turn queries and keys of this network.
        """
        for key in HARMLESS.keys() - self._asked:
            value = self._value(key)
            said = self.several(key) if isinstance(value, LazyArray) else (value,)
            if (turns or not key.startswith("rope.")) and not {*said} <= {None, *HARMLESS[key]}:
                raise self.refused(key)
        base = self.real(BASE, 10_000.0)
        if turns and SLIDING_BASE not in self._asked and self.real(SLIDING_BASE, base) != base:
            raise self.refused(SLIDING_BASE)

    def refused(self, key: str) -> ModelError:
        """The refusal of a model for this entry."""
        return ModelError(
            say(
                "The file of '{name}' does not say {entry} in a way that can be used.",
                name=self._name, entry=shown(f"{self.architecture}.{key}"),
            ),
            FETCH_AGAIN,
        )  # fmt: skip

    def without(self, tensor: str) -> ModelError:
        """The refusal of a model whose file was made without this tensor."""
        return ModelError(
            say("'{name}' lacks the weights {tensor}.", name=self._name, tensor=tensor),
            say("Choose another version of the model."),
        )

    def _value(self, key: str) -> object:
        self._asked.add(key)
        names = (key, ALSO_CALLED.get(key, key))
        found = (self._metadata.get(f"{self.architecture}.{name}") for name in names)
        return next((value for value in found if value is not None), None)


def predicting_layers(settings: Settings) -> int:
    """How many of the file's layers stand behind those of the language model, and only predict further tokens."""
    count = settings.whole("nextn_predict_layers", 0)
    layers = settings.whole("block_count")
    if count >= layers:
        raise settings.refused("nextn_predict_layers")
    if settings.architecture == SAID_WITHOUT and not settings.holds(f"blk.{layers - count}.nextn.eh_proj.weight"):
        return 0
    return count


def shortest(value: float) -> float:
    """The decimal number of fewest digits that has the same float32, as which it was stored: 1e-6, not 9.999999e-7."""
    for digits in range(6, 10) if abs(value) < LARGEST_FLOAT32 else ():
        made = float(f"{value:.{digits}g}")
        if struct.pack("<d", value) == struct.pack("<d", *struct.unpack("<f", struct.pack("<f", made))):
            return made
    return value
