"""A whole checkpoint as transformers itself loads it: what every other way to load one is compared with."""

from copy import deepcopy

import torch
from transformers import FineGrainedFP8Config, Mxfp4Config

from engine.model.architecture import open_architecture
from engine.model.checkpoint import Checkpoint
from engine.model.network import Network, wrap

UNPACK = {"mxfp4": Mxfp4Config, "fp8": FineGrainedFP8Config}


def load_resident(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Network:
    """Every weight resident on `device`.

    transformers maps files, so its weights begin wherever they do in the file, and some processors' libraries round a
    single row's float32 products by where the weights begin: here, as in all that the engine loads, they are aligned.
    """
    architecture = open_architecture(checkpoint)
    packing = checkpoint.config.get("quantization_config")
    config, unpack = deepcopy(architecture.config), None
    if isinstance(packing, dict):
        config.quantization_config = packing
        unpack = UNPACK[packing["quant_method"]](dequantize=True)
    model = architecture.model_class.from_pretrained(
        checkpoint.folder,
        config=config,
        dtype=dtype,
        attn_implementation=architecture.attention,
        local_files_only=True,
        use_safetensors=True,
        quantization_config=unpack,
    )
    model.eval().requires_grad_(False).to(device)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return wrap(model, architecture.attention, checkpoint.name)
