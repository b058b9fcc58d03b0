"""The language model of a model that also reads pictures or sound, as a network of its own.

It is the same network as if it had been published alone: its encoders are never built, and their weights never read.
"""

from collections.abc import Iterable
from copy import deepcopy
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MODEL_MAPPING, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from engine.model.families.verified_families import VERIFIED


class HeadedDecoder(PreTrainedModel):  # type: ignore[misc]  # transformers is untyped
    """A decoder that transformers has only inside of a wrapper, and the linear head that the wrapper puts on it.

    Only for decoders whose text was compared with that of their wrapper: others may do more with what the head gives.
    """

    base_model_prefix = "model"
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012  # transformers' own form
    _supports_sdpa = True

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        decoder = decoder_class(config)
        assert decoder is not None, "only for configs that a decoder is known for"
        self.model = decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, *, logits_to_keep: int = 0, **inputs: Any) -> CausalLMOutputWithPast:
        """Logits of the last rows, [1, rows, vocabulary]; all rows for 0. The other arguments are the decoder's."""
        hidden: Tensor = self.model(**inputs).last_hidden_state
        return CausalLMOutputWithPast(logits=scaled(self.lm_head(hidden[:, -logits_to_keep:]), self.config))


class WithoutPictures(HeadedDecoder):
    """The decoder of Chameleon, whose vocabulary has tokens that stand for parts of pictures: it never writes them.

    What makes such tokens of pictures is never built.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        del self.model.vqmodel
        ids = (token for token in self.model.vocabulary_mapping.image_tokens if 0 <= token < config.vocab_size)
        self._pictures = runs(ids)

    def forward(self, *, logits_to_keep: int = 0, **inputs: Any) -> CausalLMOutputWithPast:
        """See `HeadedDecoder.forward`; such tokens are as unlikely as can be."""
        found = super().forward(logits_to_keep=logits_to_keep, **inputs)
        for begin, end in self._pictures:
            found.logits[..., begin:end] = torch.finfo(found.logits.dtype).min
        return found


def runs(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Ids in ascending order as runs of those that follow each other, each with its first one and the one behind."""
    found: list[tuple[int, int]] = []
    for token in ids:
        begin = found.pop()[0] if found and found[-1][1] == token else token
        found.append((begin, token + 1))
    return found


def scaled(logits: Tensor, config: Any) -> Tensor:
    """What wrappers make of the logits, by the names that configs have for it: divided, multiplied, soft-capped."""
    if divisor := getattr(config, "logits_scaling", None):
        logits = logits / divisor
    if factor := getattr(config, "output_multiplier", None):
        logits = logits * factor
    if cap := getattr(config, "final_logit_softcapping", None):
        logits = torch.tanh(logits / cap) * cap
    return logits


def decoder_class(config: Any) -> Any:
    """transformers' class for the decoder of a text config; None if there is none, or not exactly one.

    Some stand in no mapping of the library: those are found by name beside the class of their wrapper.
    """
    if type(config) in MODEL_MAPPING:
        return MODEL_MAPPING[type(config)]
    modeling = import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    found = [
        member
        for name, member in vars(modeling).items()
        if name.endswith("TextModel")
        and isinstance(member, type)
        and issubclass(member, PreTrainedModel)
        and getattr(member, "config_class", None) is type(config)
        and member.__bases__[0].__name__.endswith("PreTrainedModel")  # no alias of an earlier name
    ]
    return found[0] if len(found) == 1 else None


def text_config(config: Any) -> Any:
    """The config of the language model alone; `config` itself where it describes nothing else."""
    text = config.get_text_config(decoder=True)
    if text is config or getattr(config, "is_encoder_decoder", False):
        return config
    text = deepcopy(text)
    for whole in (config, text):
        if hasattr(whole, "tie_word_embeddings"):  # which of both says it, differs from family to family
            text.tie_word_embeddings = whole.tie_word_embeddings
            break
    if quantisation := getattr(config, "quantization_config", None):
        text.quantization_config = quantisation
    return text


def network_class(config: Any) -> Any:
    """transformers' class for text of this config, or the decoder alone with a head; None if there is neither."""
    known = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if known is None and config.model_type in VERIFIED and decoder_class(config) is not None:
        return WithoutPictures if config.model_type == "chameleon" else HeadedDecoder
    return known
