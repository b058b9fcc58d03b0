"""Random pairs of tiny models, with what transformers computes of the target: for `tests.campaigns.conversations`."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from engine.model.families.verified_families import VERIFIED
from engine.protocol.pictures import PICTURE_FAMILIES
from tests.engine.eagle_heads import head_tensors, write_head
from tests.engine.family_models import IN_PAIRS, random_model, tiny_config
from tests.engine.gguf_cases import MADE, make
from tests.engine.gguf_files import write_gguf
from tests.engine.gguf_states import WITH_STATES
from tests.engine.head_models import NAMES, quiet, save_with_head
from tests.engine.other_drafts import reduced
from tests.engine.picture_models import TOKEN, picture_config, save_picture_model, tokenizer_of
from tests.engine.text.conftest import EMBEDDED
from tests.engine.tiny_models import save_tiny_model

TOKENS = 4096  # of the embedded pair's tokenizer, which all of them have
VARIANTS = ("plain", "quiet", "deep", "heads", "gguf", "pictures")  # deep: some layers may stay while others stream
GGUF_KINDS = (
    "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
    "IQ4_XS", "MXFP4",
)  # fmt: skip
# Whose networks the library computes in another way than they were published (see `resources/docs/families.md`), or
# saves without what its class for text needs, or whose prompts it computes otherwise than what follows them.
OTHERWISE = frozenset({*IN_PAIRS, "phimoe", "minimax", "emu3", "nemotron_h"})
UNTOKENIZED = frozenset({"gemma4 that shares keys", "gemma3n"})  # whose vocabularies stand elsewhere
HEADLESS = frozenset(  # of another width than the head of EAGLE-3, or with several states of each token
    {"longcat_flash", "gemma3n", "gemma3n_text", "deepseek_v4", "qwen4_exp", "qwen4_exp_text"}
)
NOISE = 0.1  # of a draft made of its target, in the deviation of each matrix: it often agrees


@dataclass(frozen=True, slots=True)
class RandomPair:
    """Sources of a target and a draft, and the target as transformers has it in float32, where that is comparable."""

    target: str
    draft: str
    reference: Any
    title: str
    words: tuple[int, int] = (40, 4000)  # tokens that are no special ones
    sees: bool = False


def text_families() -> list[str]:
    """Families whose trees and text are known to be exact, and that transformers has a class for text of."""
    return sorted(VERIFIED & set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) - OTHERWISE)


def random_pair(numbers: random.Random, folder: Path, families: list[str], variant: str = "") -> RandomPair:
    """Write a pair below `folder`; `variant`: of `VARIANTS`, by chance if empty."""
    variant = variant or numbers.choice(VARIANTS)
    target = folder / "target"
    if variant == "gguf":
        return _of_gguf(numbers, target)
    if variant == "pictures":
        return _with_pictures(numbers, folder)
    if variant == "heads":
        family = numbers.choice(sorted(NAMES))
        save_with_head(family, target, vocab_size=TOKENS)
        _add_tokenizer(target)
        kind = numbers.choice(("heads", "heads", "heads and a draft", "self", "none"))
    else:
        family = numbers.choice(families)
        _save(family, target, is_quiet=variant == "quiet", times=3 if variant == "deep" else 1)
        kind = numbers.choice(("none", "self", "noisy", "noisy", "embedded", "another", "other words", "EAGLE-3"))
        kind = "noisy" if kind == "EAGLE-3" and family in HEADLESS else kind
    draft = _draft(numbers, kind, folder / "draft", family, families)
    reference = transformers.AutoModelForCausalLM.from_pretrained(
        target, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    return RandomPair(str(target), draft, reference, f"{variant} {family}, draft {kind}")


def _of_gguf(numbers: random.Random, folder: Path) -> RandomPair:
    """A pair whose target is a GGUF file of some type of weights; only Coppice says what it computes."""
    case, kind = numbers.choice(sorted({**MADE, **WITH_STATES}.keys() - UNTOKENIZED)), numbers.choice(GGUF_KINDS)
    folder.mkdir(parents=True)
    path = write_gguf(folder / "model.gguf", make(case, vocab_size=TOKENS), kind, tokenizer=EMBEDDED)
    drafts = numbers.choice(("none", "self", "embedded", "embedded", "other words"))
    draft = _draft(numbers, drafts, folder.parent / "draft", case, [])
    return RandomPair(str(path), draft, None, f"{kind} {case}, draft {drafts}")


def _with_pictures(numbers: random.Random, folder: Path) -> RandomPair:
    """A target that reads pictures, and drafts that see them, too, in as many rows or in others, or do not."""
    family, other = numbers.choice(sorted(PICTURE_FAMILIES)), numbers.choice(sorted(PICTURE_FAMILIES))
    target, draft = folder / "target", folder / "draft"
    save_picture_model(family, target)
    tokenizer = tokenizer_of(family)
    kind = numbers.choice(("none", "self", "the target", "another", "another family", "text"))
    if kind.startswith("another"):
        save_picture_model(family if kind == "another" else other, draft, seed=1)
        if kind == "another family":
            kind = f"of {other}"
    elif kind == "text":
        save_tiny_model("llama", draft)
        tokenizer.save_pretrained(draft)
    named = {"the target": str(target)}.get(kind, str(draft) if draft.exists() else kind)
    own = tokenizer.convert_tokens_to_ids("<image>" if family == "idefics3" else TOKEN)
    reference = random_model(picture_config(family, own))
    return RandomPair(str(target), named, reference, f"pictures {family}, draft {kind}", (8, 90), sees=True)


def _draft(numbers: random.Random, kind: str, folder: Path, family: str, families: list[str]) -> str:
    embedded = str(EMBEDDED.parent / "demo-draft")
    named = {"embedded": embedded, "heads and a draft": f"{embedded}+heads"}
    if kind in ("noisy", "another"):
        _save(family if kind == "noisy" else numbers.choice(families), folder, noise=NOISE)
    elif kind == "other words":
        reduced(folder)
    elif kind == "EAGLE-3":
        write_head(folder, head_tensors(vocabulary=TOKENS), vocab_size=TOKENS)
    else:
        return named.get(kind, kind)
    return str(folder)


def _save(family: str, folder: Path, is_quiet: bool = False, noise: float = 0.0, times: int = 1) -> None:
    """Write a model with so many `times` as many layers as a tiny one has."""
    config = tiny_config(family)
    for part in (config, config.get_text_config(decoder=True)):
        for name in ("vocab_size", "vocab_size_per_layer_input"):
            if hasattr(part, name):
                setattr(part, name, TOKENS)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise LookupError(f"transformers has no class for the text of {family} alone.")
    _deepen(config.get_text_config(decoder=True), times)
    model = random_model(config)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters() if noise else ():
            if parameter.ndim == 2:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * noise * parameter.std())
    model = quiet(model) if is_quiet else model
    model.to(torch.bfloat16).save_pretrained(folder)
    _add_tokenizer(folder)


def _deepen(config: Any, times: int) -> None:
    """The kinds of layers follow each other so many times; whatever has a number for each layer has as many more.

    Configs that know each layer by its number stay as they are.
    """
    layers = config.num_hidden_layers
    if times == 1 or getattr(config, "is_heterogeneous", False):
        return
    for name, each in [*vars(config).items()]:
        if isinstance(each, list) and len(each) == layers:
            setattr(config, name, each * times)
    config.num_hidden_layers = layers * times


def _add_tokenizer(folder: Path) -> None:
    for path in EMBEDDED.iterdir():
        if path.name.startswith(("tokenizer", "special")):
            shutil.copy(path, folder)
