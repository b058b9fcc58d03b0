"""Resident weights: a whole checkpoint loaded, safely, onto one device."""

from copy import deepcopy

import torch

from engine.model.architecture import CONFIG_FAULTS, UNPACK_MXFP4, open_architecture, require_complete, unloadable
from engine.model.checkpoint import Checkpoint
from engine.model.network import Network, wrap

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_resident(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Network:
    """Load every weight of the checkpoint, resident on `device`; raises `ModelError` for what cannot be used."""
    architecture = open_architecture(checkpoint)
    try:
        model, report = architecture.model_class.from_pretrained(
            checkpoint.folder,
            config=architecture.config,
            dtype=dtype,
            attn_implementation=architecture.attention,
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # reported below, in our words
            output_loading_info=True,
            quantization_config=deepcopy(UNPACK_MXFP4) if architecture.mxfp4 else None,
        )
    except CONFIG_FAULTS as error:
        raise unloadable(checkpoint.name, error) from error
    mismatched = [key[0] if isinstance(key, tuple) else str(key) for key in report["mismatched_keys"]]
    require_complete(architecture, report["missing_keys"], mismatched, report["unexpected_keys"])
    model.eval().requires_grad_(False).to(device)
    return wrap(model, architecture.attention, checkpoint.name)
