"""config.json made safe to hand to transformers: its numbers are bounded, and it names no code, no file and no kernel.

Config classes allocate and loop by these numbers, and look up by these names, before anything else could refuse them.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from transformers import PreTrainedConfig

from engine.errors import ModelError
from engine.protocol.sentences import Amount, say, shown

MOST_LAYERS = 512  # four times as many as any model has; each takes milliseconds before a model is refused
MOST_PARTS = 16_384  # heads, groups or experts; numbers of a head
MOST_EXPERTS_IN_ALL = 1 << 17  # experts times layers: some networks make a module of each
MOST_WIDTH = 1 << 25  # of a hidden size, a vocabulary, a kernel
MOST = 1 << 40  # of any other number; positions, token ids
MOST_ENTRIES = 1 << 18  # of all lists and objects together
MOST_FACTOR = 1e9

# What transformers follows to code, to a file or to a kernel on the hub, what changes how it is called, and how weights
# are packed, which is none of its business. Names that begin with an underscore are its own and dropped as well.
DROPPED = frozenset(
    {
        "adapter_config", "attn_implementation", "attn_implementation_internal", "auto_map", "compression_config",
        "configuration_files", "custom_generate", "custom_pipelines", "dtype", "experts_implementation", "gguf_file",
        "gradient_checkpointing",
        "id2label", "kernel_config", "label2id", "name_or_path", "num_labels", "output_attentions",
        "output_hidden_states", "output_router_logits", "peft_config", "problem_type", "pruned_heads",
        "pretrained_model_name_or_path", "quantization_config", "return_dict", "torch_dtype", "torchscript",
        "transformers_weights", "trust_remote_code", "use_cache", "use_kernels", "use_pretrained_backbone",
        "use_return_dict",
    }
)  # fmt: skip
LAYERS = re.compile(r"num_\w*(layer|block|stage)s?|n_layers?|(?!.*window)\w*layers|depths?|\w+_depth")
PARTS = re.compile(r"\w*(experts?|heads?|groups?|codebooks?)(_per_tok(en)?)?")
HEADS = re.compile(r"\w*head_dim")
WIDTHS = re.compile(r"\w*(_size|_dim|_rank|_width|_channels)")
DROPOUTS = re.compile(r"\w*dropout\w*|\w+_pdrop")
# What else networks loop or allocate by, in every pass, or choose by: least and most.
BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "partial_rotary_factor": (0, 1),
        "altup_num_inputs": (1, 64),
        "attention_types": (0, MOST_LAYERS),  # how often the kinds of GPT-Neo's layers are repeated
        "hc_sinkhorn_iters": (0, 1000),  # published models say 20
        **dict.fromkeys(("index_topk", "indexer_budget"), (1, 1 << 16)),  # tokens, of each row
    }
)
MOST_MPT_POSITIONS = 1 << 20  # its biases of all are made in every pass
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k", "moe_topk", "moe_top_k")
COMPRESSION = "compress_rates"
HEAD_COUNTS = ("num_attention_heads", "num_heads", "n_heads", "n_head")
CHOOSERS, BLOCKS = "index_n_heads", ("index_block_size", "index_topk_blocks")
GROUPS, CHOSEN_GROUPS = "n_group", "topk_group"
ROPE = ("rope_parameters", "rope_scaling")
SECTIONS, AXES = "mrope_section", 3  # of a picture: time, height and width
SPANS = ("sliding_window", "attention_chunk_size")
POSITIVE = ("rope_theta", "factor", "rope_local_base_freq", "original_max_position_embeddings")
# What JSON has no number for, as transformers writes it: {"__float__": "Infinity"}; a NaN is no number of a config.
UNWRITABLE = {"Infinity": math.inf, "-Infinity": -math.inf}
GET_AGAIN = say("The file is damaged or made to do harm: get the model again from where it was published.")


def safe_config(config: Mapping[str, object], name: str, tensors: int) -> dict[str, object]:
    """A copy of a parsed config.json that transformers may see; `tensors`: how many the model's weight files hold.

    Raises `ModelError` for a number that no model has, or for more layers than there are tensors.
    """
    _require_few_entries(config, name)
    made = _cleaned(config)
    for path, key, value in _numbers(made):
        _require_bounded(path, key, value, name)
    _require_layers(made, name, tensors)
    for part in (made, made.get("text_config")):
        _require_sensible_attention(part if isinstance(part, dict) else {}, name)
    return made


def require_consistent(config: PreTrainedConfig, name: str) -> None:
    """Raise `ModelError` where a config, as its class completes it, chooses more experts than there are, or shares keys
    unevenly: compiled loops rely on both.
    """
    # Not asked of the config itself, which hands out no number that differs by layer.
    made = {key: value for key, value in vars(config).items() if value is not None}
    # The class reads one of these numbers, and others may stand beside it: the least holds for any.
    experts = min((count for count in _whole_numbers(made, EXPERTS) if count > 0), default=0)
    _require_experts_to_choose(made, experts, name)
    _require_groups_to_choose(made, experts, name)
    _require_shared_keys(made, name)
    _require_blocks_to_choose(made, name)
    _require_tokens_to_compress(made, name)
    _require_own_numbers(made, name)


def _cleaned(config: Mapping[str, object]) -> dict[str, object]:
    """Without the names that are not for data: those of `DROPPED`, private ones, and those of the library's methods."""
    return {
        key: _cleaned_value(value)
        for key, value in config.items()
        if key not in DROPPED and not key.startswith("_") and not callable(getattr(PreTrainedConfig, key, None))
    }


def _cleaned_value(value: object) -> object:
    if isinstance(value, dict):
        return UNWRITABLE.get(str(value["__float__"])) if value.keys() == {"__float__"} else _cleaned(value)
    return [_cleaned_value(item) for item in value] if isinstance(value, list) else value


def _numbers(value: object, path: str = "", key: str = "") -> Iterator[tuple[str, str, float]]:
    """Every number, where it is, and the name of the entry that it belongs to."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _numbers(item, f"{path}.{name}" if path else name, name)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, path, key)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, key, value


def _require_few_entries(config: Mapping[str, object], name: str) -> None:
    pending: list[object] = [config]
    count = 0
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping | list):
            count += len(value)
            if count > MOST_ENTRIES:
                raise ModelError(
                    say("The config.json of '{name}' has more than {count} entries.", name=name, count=MOST_ENTRIES),
                    GET_AGAIN,
                )
            pending.extend(value.values() if isinstance(value, Mapping) else value)


def _require_bounded(path: str, key: str, value: float, name: str) -> None:
    least: float = -MOST
    most: float = MOST
    if LAYERS.fullmatch(key):
        most = MOST_LAYERS
    elif PARTS.fullmatch(key) or HEADS.fullmatch(key):
        most = MOST_PARTS
    elif WIDTHS.fullmatch(key):
        most = MOST_WIDTH
    elif key in BOUNDS or DROPOUTS.fullmatch(key):
        least, most = BOUNDS.get(key, (0.0, 1.0))
    elif key.endswith("_factor"):
        most = MOST_FACTOR
    if not (least <= value <= most) and not (isinstance(value, float) and math.isinf(value) and most == MOST):
        bound = Amount(f"{least if value < least else most:g}")
        wanted = say("at least {number}", number=bound) if value < least else say("at most {number}", number=bound)
        raise _refusal(name, path, value, wanted)


def _require_layers(config: Mapping[str, object], name: str, tensors: int) -> None:
    """Every layer has a tensor at least, so that a model of few tensors cannot ask for many layers."""
    text = config.get("text_config")
    merged = {**config, **text} if isinstance(text, dict) else config
    layers = next((merged[key] for key in ("num_hidden_layers", "n_layer", "num_layers") if key in merged), None)
    if layers is None:
        return
    if type(layers) is not int or layers < 1:
        raise _refusal(name, "num_hidden_layers", layers, say("a whole number above 0"))
    if layers > tensors:
        raise ModelError(
            say(
                "The config.json of '{name}' says {count} layers, which its weights do not hold.",
                name=name,
                count=layers,
            ),
            say("config.json and the weights do not belong together; get both again."),
        )
    experts = max(_whole_numbers(merged, EXPERTS), default=0)
    _require_experts_to_choose(merged, experts, name)
    if layers * experts > MOST_EXPERTS_IN_ALL:
        wanted = say("at most {count} in {layers} layers", count=MOST_EXPERTS_IN_ALL // layers, layers=layers)
        raise _refusal(name, "num_experts", experts, wanted)


def _require_experts_to_choose(config: Mapping[str, object], experts: int, name: str) -> None:
    if not experts or not any(key in config for key in CHOSEN):
        return
    chosen = _whole_numbers(config, CHOSEN) or [0]
    if max(chosen) > experts:
        raise _refusal(name, CHOSEN[0], max(chosen), say("at most {count}, the number of experts", count=experts))
    if min(chosen) < 1:
        raise _refusal(name, CHOSEN[0], min(chosen), say("at least {number}", number=1))


def _require_groups_to_choose(config: Mapping[str, object], experts: int, name: str) -> None:
    """Experts lie in groups of the same size, of which some are chosen before their experts are."""
    groups, chosen = config.get(GROUPS), config.get(CHOSEN_GROUPS)
    if not experts or type(groups) is not int or type(chosen) is not int:
        return
    if groups < 1 or experts % groups:
        raise _refusal(name, GROUPS, groups, say("a divisor of {count}, the number of experts", count=experts))
    if not 1 <= chosen <= groups:
        raise _refusal(name, CHOSEN_GROUPS, chosen, say("between {least} and {most}", least=1, most=groups))


def _require_blocks_to_choose(config: Mapping[str, object], name: str) -> None:
    """Every head of an indexer that chooses blocks of tokens does so for as many heads, of a key or of several."""
    if BLOCKS[0] not in config:
        return
    for key in BLOCKS:
        count = config.get(key)
        if type(count) is not int or count < 1:
            raise _refusal(name, key, count, say("at least {number}", number=1))
    choosers, heads, of_keys = (config.get(key) for key in (CHOOSERS, "num_attention_heads", "num_key_value_heads"))
    if not isinstance(choosers, int) or not isinstance(heads, int) or not isinstance(of_keys, int):
        return
    if choosers < 1 or heads % choosers or (of_keys % choosers and choosers % max(1, of_keys)):
        raise _refusal(name, CHOOSERS, choosers, say("a divisor of {count}, the number of heads", count=heads))


def _require_tokens_to_compress(config: Mapping[str, object], name: str) -> None:
    """Every entry of compressed attention stands for some tokens."""
    rates = config.get(COMPRESSION)
    for tokens in rates.values() if isinstance(rates, dict) else ():
        if type(tokens) is not int or tokens < 1:
            raise _refusal(name, COMPRESSION, tokens, say("at least {number}", number=1))


def _require_own_numbers(config: Mapping[str, object], name: str) -> None:
    """What classes of a few families take as it is."""
    for key in HEAD_COUNTS:
        if type(heads := config.get(key)) is int and heads < 1:
            raise _refusal(name, key, heads, say("at least {number}", number=1))
    inputs, active = config.get("altup_num_inputs"), config.get("altup_active_idx")
    if isinstance(inputs, int) and not (isinstance(active, int) and 0 <= active < inputs):
        raise _refusal(name, "altup_active_idx", active, say("between {least} and {most}", least=0, most=inputs - 1))
    if config.get("model_type") != "mpt":
        return
    positions, width, heads = (config.get(key) for key in ("max_seq_len", "d_model", "n_heads"))
    if not isinstance(positions, int) or not 2 <= positions <= MOST_MPT_POSITIONS:
        words = say("between {least} and {most}", least=2, most=MOST_MPT_POSITIONS)
        raise _refusal(name, "max_seq_len", positions, words)
    if isinstance(width, int) and isinstance(heads, int) and width % heads:
        raise _refusal(name, "n_heads", heads, say("a divisor of {count}, the width", count=width))


def _whole_numbers(config: Mapping[str, object], keys: Sequence[str]) -> list[int]:
    return [value for key in keys if type(value := config.get(key)) is int]


def _require_sensible_attention(config: Mapping[str, object], name: str) -> None:
    for key in SPANS:
        tokens = config.get(key)
        if tokens == 0 and config.get("use_sliding_window") is False:
            continue  # as transformers writes a Qwen2-MoE
        if tokens is not None and (type(tokens) is not int or tokens < 1):
            raise _refusal(name, key, tokens, say("a whole number above 0, or null"))
    _require_shared_keys(config, name)
    positions = config.get("max_position_embeddings")
    if positions is not None and (type(positions) is not int or positions < 1):
        raise _refusal(name, "max_position_embeddings", positions, say("a whole number above 0"))
    for rope in (config, *_ropes(config)):
        sections = rope.get(SECTIONS)
        if sections is not None and not _are_sections(sections):
            raise _refusal(name, SECTIONS, sections, say("at least {number} whole numbers", number=AXES))
        for key in POSITIVE:
            value = rope.get(key)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 < float(str(value)) < math.inf):
                raise _refusal(name, key, value, say("a number above 0"))


def _require_shared_keys(config: Mapping[str, object], name: str) -> None:
    """As many heads as any other read each head of keys, where these are not made of latents."""
    heads, of_keys = config.get("num_attention_heads"), config.get("num_key_value_heads")
    if not isinstance(heads, int) or not isinstance(of_keys, int) or of_keys < 1 or config.get("kv_lora_rank"):
        return
    if heads % of_keys:
        wanted = say("a divisor of {count}, the number of heads", count=heads)
        raise _refusal(name, "num_key_value_heads", of_keys, wanted)


def _ropes(config: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The settings of the rotary embedding; some models have one for every kind of layer."""
    for key in ROPE:
        rope = config.get(key)
        if isinstance(rope, dict):
            yield rope
            yield from (part for part in rope.values() if isinstance(part, dict))


def _are_sections(sections: object) -> bool:
    """Whether these are parts of a head, one for each axis at least."""
    if not isinstance(sections, list) or len(sections) < AXES:
        return False
    return all(type(part) is int and part >= 0 for part in sections)


def _refusal(name: str, path: str, value: object, wanted: str) -> ModelError:
    return ModelError(
        say(
            "The config.json of '{name}' says {entry} = {value}; it must be {wanted}.",
            name=name,
            entry=shown(path)[1:-1],
            value=shown(str(value))[1:-1],
            wanted=wanted,
        ),
        GET_AGAIN,
    )
