"""Which of a checkpoint's tensors belong to its language model, where it also reads pictures or sound."""

import re
from collections import defaultdict
from collections.abc import Mapping

from engine.model.families.eagle_names import eagle_tensors
from engine.model.safetensors_header import TensorInfo
from engine.protocol.heads import is_eagle3

# The parts of a config.json that only a model of several parts has.
PARTS = ("text_config", "llm_config", "thinker_config", "vision_config", "audio_config", "encoder_config")
LAYER = re.compile(r"(?P<decoder>(?:.*\.)?)layers\.\d+\..+", re.ASCII)
MODEL, HEAD, EMBEDDINGS = "model.", "lm_head.", ("embed_tokens.weight", "embeddings.weight")
FURTHER_TOKENS = "mtp."  # heads that guess further tokens; those of wrappers stand beside the language model


def reads_more_than_text(config: Mapping[str, object]) -> bool:
    """Whether a config.json describes a language model with an encoder of pictures or sound beside it."""
    return any(isinstance(config.get(part), dict) for part in PARTS)


def text_tensors(config: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> Mapping[str, TensorInfo]:
    """The tensors of the language model alone, called as in a checkpoint of only that (`model.`, `lm_head.`, `mtp.`).

    All of them, as they are, where there is nothing else, or where no decoder with embeddings is found among them;
    those of an EAGLE-3 head as in a Llama of one layer.
    """
    if is_eagle3(config):
        return eagle_tensors(tensors)
    if not reads_more_than_text(config):
        return tensors
    nbytes: dict[str, int] = defaultdict(int)
    for name, tensor in tensors.items():
        match = LAYER.fullmatch(name)
        if match and any(match["decoder"] + embedding in tensors for embedding in EMBEDDINGS):
            nbytes[match["decoder"]] += tensor.end - tensor.begin
    if not nbytes:
        return tensors
    decoder = max(nbytes, key=lambda prefix: nbytes[prefix])
    found = {MODEL + name.removeprefix(decoder): tensor for name, tensor in tensors.items() if name.startswith(decoder)}
    further = {name: tensor for name, tensor in tensors.items() if name.startswith(FURTHER_TOKENS)}
    return found | _head(decoder, tensors) | further


def _head(decoder: str, tensors: Mapping[str, TensorInfo]) -> dict[str, TensorInfo]:
    """The tensors of the head that stands nearest around the decoder; none where it is tied to the embeddings."""
    owners = {name.partition(HEAD)[0] for name in tensors if HEAD in name}
    around = [owner for owner in owners if decoder.startswith(owner) and (not owner or owner.endswith("."))]
    if not around:
        return {}
    begin = max(around, key=len) + HEAD
    return {HEAD + name.removeprefix(begin): tensor for name, tensor in tensors.items() if name.startswith(begin)}
