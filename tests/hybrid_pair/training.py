"""Trains a hybrid towards a teacher: first its mixing layers one by one, then its distribution of tokens."""

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Qwen3_5ForCausalLM

from tests.hybrid_pair.corpus import LENGTH, ROWS, Rows

WARM_UP_STEPS = 20
FINAL_SCALE = 0.05  # of the learning rate when the time is over
SAVE_SECONDS = 120
CLIP = 1.0


def descend(
    parameters: Iterable[nn.Parameter],
    loss_of: Callable[[], Tensor],
    save: Callable[[], None],
    *,
    minutes: float,
    rate: float,
) -> None:
    """AdamW for so many minutes of the processor, the rate falling in a line; saves now and then, and at the end."""
    chosen = list(parameters)
    optimizer = torch.optim.AdamW(chosen, lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
    begun = saved = time.process_time()
    step, smooth = 0, 0.0
    while (elapsed := (time.process_time() - begun) / (60 * minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / WARM_UP_STEPS, max(FINAL_SCALE, 1 - elapsed))
        loss = loss_of()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(chosen, CLIP)
        optimizer.step()
        optimizer.zero_grad()
        step, smooth = step + 1, 0.95 * smooth + 0.05 * loss.item() if step else loss.item()
        if step % 20 == 0:
            speed = step * ROWS * LENGTH / (time.process_time() - begun)
            print(f"{elapsed:.0%} step {step} loss {smooth:.4f}, {speed:.0f} tokens/s", flush=True)
        if time.process_time() - saved > SAVE_SECONDS:
            saved = time.process_time()
            save()
    save()


def align(model: Any, teacher: Any, rows: Rows, output: Path, minutes: float, rate: float) -> None:
    """Teach every mixing layer to give what the teacher's attention at its place gives from the same input."""
    seen: dict[int, tuple[Tensor, Tensor]] = {}
    for index, layer in enumerate(teacher.model.layers):
        layer.self_attn.register_forward_hook(_recorder(seen, index), with_kwargs=True)
    mixers = [getattr(layer, "linear_attn", None) or layer.self_attn for layer in model.model.layers]
    positions = torch.arange(LENGTH)[None]

    def loss() -> Tensor:
        ids, _ = rows.batch()
        with torch.no_grad():
            teacher.model(ids, use_cache=False)
        rope = model.model.rotary_emb(seen[0][0], positions)
        errors = []
        for index, mixer in enumerate(mixers):
            given, wanted = seen[index]
            if layer_is_linear(model, index):
                found = mixer(given)
            else:
                found, _ = mixer(given, position_embeddings=rope, attention_mask=None)
            errors.append((found - wanted).square().mean() / wanted.square().mean())
        return torch.stack(errors).mean()

    chosen = [parameter for mixer in mixers for parameter in mixer.parameters()]
    descend(chosen, loss, lambda: save_model(model, output), minutes=minutes, rate=rate)


def layer_is_linear(model: Any, index: int) -> bool:
    """Whether this layer keeps a state."""
    return bool(model.config.layer_types[index] == "linear_attention")


def _recorder(seen: dict[int, tuple[Tensor, Tensor]], index: int) -> Callable[..., None]:
    def record(_module: Any, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        seen[index] = (named["hidden_states"] if "hidden_states" in named else arguments[0], output[0])

    return record


def distil(
    model: Any,
    teacher: Any,
    rows: Rows,
    output: Path,
    minutes: float,
    rate: float,
    only: Sequence[str] = ("",),
    penalty: Callable[[], Tensor] | None = None,
) -> None:
    """Train on the teacher's distribution of the next token; weights with none of `only` in their names stay.

    `penalty`: what the model's last forward pass adds to the loss.
    """
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(part in name for part in only))

    def loss() -> Tensor:
        ids, weights = rows.batch()
        with torch.no_grad():
            wanted = torch.softmax(teacher(ids, use_cache=False).logits, -1)
        found = torch.log_softmax(model(ids, use_cache=False).logits, -1)
        apart = divergence(found, wanted, weights)
        return apart + penalty() if penalty else apart

    descend(
        (p for p in model.parameters() if p.requires_grad),
        loss,
        lambda: save_model(model, output),
        minutes=minutes,
        rate=rate,
    )


def divergence(found: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
    """Kullback-Leibler divergence in nats, a weighted mean over tokens.

    found: log-probabilities [..., vocabulary]; wanted: probabilities; weights: [...].
    """
    entropy = torch.special.entr(wanted).sum(-1)
    apart = -(wanted * found).sum(-1) - entropy
    mean: Tensor = (apart * weights).sum() / weights.sum()
    return mean


def save_model(model: Any, folder: Path) -> None:
    """Write config and weights, in bfloat16."""
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)


def load_model(folder: Path) -> Any:
    """A saved hybrid, in float32."""
    return Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.float32)
