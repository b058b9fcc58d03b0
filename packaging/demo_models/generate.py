"""Lets a trained target write answers itself: the text that its draft has to predict later."""

import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from corpus import ASSISTANT, BOS, END, PAD, SYSTEM, USER, USER_WEIGHT, Document, pack
from dialogues.conversation import Conversations, Dialogue

ROWS = 96
PROMPT_TOKENS = 96  # a longer prompt makes every row of its batch slower
ANSWER_TOKENS = 280
SEED = 99  # not the seed of the corpus, so that the chats are new ones
# Half of the answers are greedy, half are sampled at the temperature that the application starts with.
TEMPERATURES = (0.0, 0.7)


def prompt_of(tokenizer: Any, dialogue: Dialogue) -> list[int]:
    """The chat up to the last question, as ids."""
    *past, (question, _) = dialogue.turns
    parts = [(SYSTEM, dialogue.system)] if dialogue.system else []
    for asked, answered in past:
        parts += [(USER, asked), (ASSISTANT, answered)]
    ids = [BOS]
    for role, text in [*parts, (USER, question)]:
        ids += [role, *tokenizer.encode(text, add_special_tokens=False), END]
    return [*ids, ASSISTANT]


@torch.no_grad()
def answer(model: Any, prompts: list[list[int]], temperature: float) -> list[list[int]]:
    """Continue all prompts at once, padded on the left; each answer ends with END unless it grew too long."""
    width = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (width - len(prompt)) + prompt for prompt in prompts])
    choice = {"do_sample": True, "temperature": temperature, "top_p": 0.95} if temperature else {"do_sample": False}
    written = model.generate(ids, attention_mask=(ids != PAD).long(), max_new_tokens=ANSWER_TOKENS, **choice)
    answers = written[:, width:].tolist()
    return [row[: row.index(END) + 1] if END in row else row for row in answers]


def write_generated(target: Path, folder: Path, *, minutes: float, threads: int) -> int:
    """Write `generated.*.npy` with what the target says in so many minutes; returns the number of tokens."""
    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    tokenizer = AutoTokenizer.from_pretrained(target)
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.bfloat16).eval()
    source, documents, turn, end = Conversations(SEED), list[Document](), 0, time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        prompts = [prompt_of(tokenizer, source.next()) for _ in range(2 * ROWS)]
        prompts = [prompt for prompt in prompts if len(prompt) <= PROMPT_TOKENS][:ROWS]
        for prompt, said in zip(prompts, answer(model, prompts, TEMPERATURES[turn % 2]), strict=True):
            weights = [USER_WEIGHT] * len(prompt) + [1.0] * len(said)
            documents.append(Document(prompt + said, weights))
        turn += 1
        print(f"{len(documents)} answers written by the target", flush=True)
    return pack(documents, folder, "generated")
