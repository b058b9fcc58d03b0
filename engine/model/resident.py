"""Resident weights: a whole checkpoint loaded, safely, onto one device."""

from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from engine.errors import ModelError
from engine.model.checkpoint import Checkpoint
from engine.model.families import attention_implementation, require_tree
from engine.model.network import Network, wrap

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

# Configs are untrusted, and validated by their classes, each in its own way.
CONFIG_FAULTS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    StrictDataclassError,
)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_resident(checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> Network:
    """Load every weight of the checkpoint, resident on `device`; raises `ModelError` for what cannot be used."""
    config = _open_config(checkpoint)
    model_class = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if model_class is None:
        raise ModelError(
            f"'{checkpoint.name}' ({config.model_type}) is not a text-generation model.", "Choose another model."
        )
    require_tree(config, model_class, checkpoint.name)
    attention = attention_implementation(config, model_class)
    try:
        model, report = model_class.from_pretrained(
            checkpoint.folder,
            config=config,
            dtype=dtype,
            attn_implementation=attention,
            local_files_only=True,
            use_safetensors=True,
            ignore_mismatched_sizes=True,  # reported below, in our words
            output_loading_info=True,
        )
    except CONFIG_FAULTS as error:
        raise _unloadable(checkpoint, error) from error
    _require_complete(checkpoint, config, report)
    model.eval().requires_grad_(False).to(device)
    return wrap(model, attention, checkpoint.name)


def _open_config(checkpoint: Checkpoint) -> Any:
    kind = str(checkpoint.config.get("model_type"))
    if kind not in transformers.CONFIG_MAPPING:
        hint = "Models that bring their own code are not run." if "auto_map" in checkpoint.config else ""
        raise ModelError(
            f"'{checkpoint.name}' has the architecture '{kind}', which this version of transformers does not know.",
            hint or "Choose another model, or update Coppice.",
        )
    try:
        return transformers.AutoConfig.from_pretrained(Path(checkpoint.folder), local_files_only=True)
    except CONFIG_FAULTS as error:
        raise _unloadable(checkpoint, error) from error


def _require_complete(checkpoint: Checkpoint, config: Any, report: dict[str, Any]) -> None:
    """Refuse a model some of whose weights would be random numbers, or are left over."""
    layers = config.get_text_config(decoder=True).num_hidden_layers
    left_over = [key for key in report["unexpected_keys"] if f".layers.{layers}." in key]
    mismatched = [key[0] if isinstance(key, tuple) else str(key) for key in report["mismatched_keys"]]
    for what, names in (
        ("lacks the weights", sorted(report["missing_keys"])),
        ("has weights of another shape than its config.json says:", sorted(mismatched)),
        ("has weights for more layers than its config.json says:", sorted(left_over)),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ModelError(
                f"'{checkpoint.name}' {what} {names[0]}{more}.",
                "config.json and the weights do not belong together; get both again.",
            )


def _unloadable(checkpoint: Checkpoint, error: BaseException) -> ModelError:
    first_line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return ModelError(
        f"'{checkpoint.name}' cannot be loaded: {first_line[:300]}", "Check the folder, or download the model again."
    )
