"""A whole checkpoint as transformers itself loads it: what every other way to load one is compared with."""

from copy import deepcopy

import torch

from engine.model.architecture import UNPACK_MXFP4, open_architecture
from engine.model.checkpoint import Checkpoint
from engine.model.network import Network, wrap


def load_resident(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Network:
    """Every weight resident on `device`.

    transformers maps files, so its weights begin wherever they do in the file, and some processors' libraries round a
    single row's float32 products by where the weights begin: here, as in all that the engine loads, they are aligned.
    """
    architecture = open_architecture(checkpoint)
    model = architecture.model_class.from_pretrained(
        checkpoint.folder,
        config=architecture.config,
        dtype=dtype,
        attn_implementation=architecture.attention,
        local_files_only=True,
        use_safetensors=True,
        quantization_config=deepcopy(UNPACK_MXFP4) if architecture.mxfp4 else None,
    )
    model.eval().requires_grad_(False).to(device)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return wrap(model, architecture.attention, checkpoint.name)
