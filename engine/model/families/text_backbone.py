"""The language model of a model that also reads pictures or sound, as a network of its own.

It is the same network as if it had been published alone: its encoders are never built, and their weights never read.
"""

from copy import deepcopy
from typing import Any

from torch import Tensor, nn
from transformers import MODEL_MAPPING, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from engine.model.families.verified_families import VERIFIED


class HeadedDecoder(PreTrainedModel):  # type: ignore[misc]  # transformers is untyped
    """A decoder that transformers has only inside of a wrapper, and the linear head that the wrapper puts on it.

    Only for decoders whose text was compared with that of their wrapper: others may scale or cap what the head gives.
    """

    base_model_prefix = "model"
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012  # transformers' own form
    _supports_sdpa = True

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.model = MODEL_MAPPING[type(config)](config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, *, logits_to_keep: int = 0, **inputs: Any) -> CausalLMOutputWithPast:
        """Logits of the last rows, [1, rows, vocabulary]; all rows for 0. The other arguments are the decoder's."""
        hidden: Tensor = self.model(**inputs).last_hidden_state
        return CausalLMOutputWithPast(logits=self.lm_head(hidden[:, -logits_to_keep:]))


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
    if known is None and config.model_type in VERIFIED and type(config) in MODEL_MAPPING:
        return HeadedDecoder
    return known
