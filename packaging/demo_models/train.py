"""Trains a small Llama from scratch on two CPU cores until a deadline, or distils one from a teacher."""

import copy
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from corpus import BOS, CONTEXT, END, PAD, VOCABULARY
from validation import validation_losses

LENGTH = 512  # tokens in a row
ROWS = 6  # rows in a batch: small, because the time allows few steps
HEAD_CHUNK = 2048  # positions whose logits are in memory at once
TEACHER_SHARE = 0.9  # of the loss is divergence from the teacher, the rest is the text itself
WARM_UP_STEPS = 40
CONSTANT_UNTIL = 0.4  # of the time; the learning rate then falls in a line
MATRIX_RATE, VECTOR_RATE = 0.02, 3e-3
REVIEW_PEAK = 0.25  # of the rates, for a model that is already trained
CHECKPOINT_SECONDS = 480


@dataclass(frozen=True)
class Shape:
    """The sizes of a model."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int


TARGET = Shape(hidden=256, layers=8, heads=4, feed_forward=704)
DRAFT = Shape(hidden=128, layers=3, heads=2, feed_forward=352)


def new_model(shape: Shape) -> Any:
    """A randomly initialised LlamaForCausalLM with tied embeddings."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    return LlamaForCausalLM(config)


def save_model(model: Any, tokenizer: Path, folder: Path) -> None:
    """Write a complete model folder in bfloat16, tokenizer and chat template included."""
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)
    shutil.copytree(tokenizer, folder, dirs_exist_ok=True)


class Rows:
    """Rows of packed tokens, each once in random order before any comes again."""

    def __init__(self, folder: Path, name: str) -> None:
        self._ids = np.load(folder / f"{name}.ids.npy", mmap_mode="r")
        self._weights = np.load(folder / f"{name}.weights.npy", mmap_mode="r")
        self._rng = np.random.default_rng(0)
        self._order: list[int] = []

    def batch(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Inputs and labels, int64 [ROWS, LENGTH], and the weights of the labels, float32 [ROWS, LENGTH]."""
        if len(self._order) < ROWS:
            self._order = self._rng.permutation((len(self._ids) - 1) // LENGTH).tolist()
        starts = [self._order.pop() * LENGTH for _ in range(ROWS)]
        ids = torch.from_numpy(np.stack([self._ids[s : s + LENGTH + 1] for s in starts]).astype(np.int64))
        weights = np.stack([self._weights[s + 1 : s + LENGTH + 1] for s in starts]).astype(np.float32)
        return ids[:, :-1], ids[:, 1:], torch.from_numpy(weights)


class Optimizers:
    """Muon for the matrices, AdamW for embeddings and norms, one rate schedule for both."""

    def __init__(self, model: Any) -> None:
        named = list(model.named_parameters())
        matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
        self._vectors = [p for name, p in named if p.ndim != 2 or "embed" in name]
        muon = torch.optim.Muon(matrices, lr=MATRIX_RATE, momentum=0.95, weight_decay=0.01, adjust_lr_fn="original")
        adam = torch.optim.AdamW(self._vectors, lr=VECTOR_RATE, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
        self._pairs: list[tuple[torch.optim.Optimizer, float]] = [(muon, MATRIX_RATE), (adam, VECTOR_RATE)]

    def step(self, scale: float) -> None:
        torch.nn.utils.clip_grad_norm_(self._vectors, 1.0)
        for optimizer, rate in self._pairs:
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
            optimizer.step()
            optimizer.zero_grad()


def rate_scale(step: int, elapsed: float) -> float:
    """Warm up over the first steps, stay, then fall to 2 % when `elapsed` (a fraction of the time) reaches one."""
    falling = max(0.02, (1 - elapsed) / (1 - CONSTANT_UNTIL))
    return min(1.0, (step + 1) / WARM_UP_STEPS, falling)


def backward(
    hidden: torch.Tensor,
    embedding: torch.Tensor,
    labels: torch.Tensor,
    weights: torch.Tensor,
    teacher: torch.Tensor | None,
) -> float:
    """Backpropagate the weighted loss through the tied head, chunk by chunk; returns the cross-entropy in nats.

    hidden [N, H] has a graph; labels and weights are [N]; teacher is [N, V] logits or None.
    """
    states = hidden.detach().requires_grad_()
    head = embedding.detach().to(torch.bfloat16).requires_grad_()
    total, entropy = weights.sum(), 0.0
    for start in range(0, len(labels), HEAD_CHUNK):
        part = slice(start, start + HEAD_CHUNK)
        log_p = torch.log_softmax((states[part].to(torch.bfloat16) @ head.t()).float(), -1)
        cross = -(log_p.gather(1, labels[part, None])[:, 0] * weights[part]).sum() / total
        loss = cross
        if teacher is not None:
            divergence = -(torch.softmax(teacher[part].float(), -1) * log_p).sum(-1)
            loss = TEACHER_SHARE * (divergence * weights[part]).sum() / total + (1 - TEACHER_SHARE) * cross
        loss.backward()  # type: ignore[no-untyped-call]
        entropy += cross.item()
    assert states.grad is not None
    assert head.grad is not None
    hidden.backward(states.grad)  # type: ignore[no-untyped-call]
    gradient = head.grad.float()
    embedding.grad = gradient if embedding.grad is None else embedding.grad + gradient
    return entropy


def train(
    shape: Shape, folder: Path, output: Path, *, minutes: float, threads: int, teacher: Path | None = None
) -> None:
    """Train on `train.*.npy` in `folder` for `minutes` of wall-clock time and write `output`.

    With a teacher, the last third of the time uses `generated.*.npy`, the text that the teacher itself wrote.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    master = LlamaForCausalLM.from_pretrained(teacher, dtype=torch.bfloat16).eval() if teacher else None
    rows = Rows(folder, "train")
    late = Rows(folder, "generated") if teacher else rows
    descend(new_model(shape), master, rows, late, folder, output, minutes=minutes)


def review(folder: Path, output: Path, *, minutes: float, threads: int) -> None:
    """Train the model in `output` further on `review.*.npy`, at a low rate."""
    torch.set_num_threads(threads)
    rows = Rows(folder, "review")
    model = LlamaForCausalLM.from_pretrained(output, dtype=torch.float32)
    descend(model, None, rows, rows, folder, output, minutes=minutes, peak=REVIEW_PEAK)


def descend(
    model: Any, teacher: Any, rows: Rows, late: Rows, folder: Path, output: Path, *, minutes: float, peak: float = 1.0
) -> None:
    """Take steps until the time is over, on `late` in its last third; save every few minutes and at the end."""
    network: Any = torch.compile(model.model, dynamic=False)
    optimizers, embedding = Optimizers(model), model.get_input_embeddings().weight
    begun = saved = time.monotonic()
    step, smooth = 0, 0.0
    while (elapsed := (time.monotonic() - begun) / (60 * minutes)) < 1:
        inputs, labels, weights = (late if elapsed > 2 / 3 else rows).batch()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = network(input_ids=inputs, use_cache=False).last_hidden_state
        logits = None
        if teacher is not None:
            with torch.no_grad():
                logits = teacher(inputs, use_cache=False).logits.flatten(0, 1)
        loss = backward(hidden.flatten(0, 1), embedding, labels.flatten(), weights.flatten(), logits)
        optimizers.step(peak * rate_scale(step, elapsed))
        step, smooth = step + 1, 0.98 * smooth + 0.02 * loss if step else loss
        if step % 50 == 0:
            seen, seconds = step * ROWS * LENGTH, time.monotonic() - begun
            print(f"{elapsed:.0%} step {step} loss {smooth:.3f}, {seen} tokens, {seen / seconds:.0f}/s", flush=True)
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            saved = time.monotonic()
            save_model(model, folder / "tokenizer", output)
    save_model(model, folder / "tokenizer", output)
    print("validation", validation_losses(model, folder), flush=True)
