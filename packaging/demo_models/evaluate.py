"""Measures a pair: answers to read, sums, held-out loss, agreement and tokens per pass of the target."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from corpus import BOS, END
from prompts import CONVERSATION, FAIRY_TALE, QUESTIONS, SUMS
from speculation import tokens_per_pass
from validation import validation_losses

BUDGETS = (16, 64, 256)
ANSWER_TOKENS = 240
TOP_P = 0.9


class Pair:
    """A target and its draft in float32, with their shared tokenizer."""

    def __init__(self, target: Path, draft: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(target)
        self.target = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
        self.draft = AutoModelForCausalLM.from_pretrained(draft, dtype=torch.float32).eval()

    def prompt(self, messages: list[dict[str, str]]) -> list[int]:
        ids: list[int] = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return ids

    def text(self, ids: list[int]) -> str:
        text: str = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text

    @torch.no_grad()
    def answer(self, prompt: list[int], temperature: float, tokens: int = ANSWER_TOKENS) -> list[int]:
        """What the target writes after the prompt, its end token included."""
        sampling = {"do_sample": True, "temperature": temperature, "top_p": TOP_P, "top_k": 0}
        choice = sampling if temperature else {"do_sample": False}
        ids = torch.tensor([prompt])
        written = self.target.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, **choice)
        said: list[int] = written[0, len(prompt) :].tolist()
        return said


@torch.no_grad()
def agreement(pair: Pair, answers: list[tuple[list[int], list[int]]]) -> float:
    """How often the draft's most likely token is the one that the target wrote."""
    same = total = 0
    for prompt, said in answers:
        logits = pair.draft(torch.tensor([prompt + said])).logits[0, len(prompt) - 1 : -1]
        same += int((logits.argmax(-1) == torch.tensor(said)).sum())
        total += len(said)
    return round(same / total, 3)


def ask_all(pair: Pair, temperature: float) -> list[tuple[list[int], list[int]]]:
    """Answer and print every question; returns (prompt, answer) ids."""
    answers = []
    for kind, questions in QUESTIONS.items():
        for question in questions:
            prompt = pair.prompt([{"role": "user", "content": question}])
            said = pair.answer(prompt, temperature)
            print(f"[{kind}, T={temperature}] {question}\n  {pair.text(said)!r}", flush=True)
            answers.append((prompt, said))
    return answers


def correct_sums(pair: Pair) -> float:
    """Share of small sums whose answer ends in the right number."""
    right = 0
    for a, sign, b in SUMS:
        word, result = ("plus", a + b) if sign == "+" else ("minus", a - b)
        prompt = pair.prompt([{"role": "user", "content": f"What is {a} {word} {b}?"}])
        right += pair.text(pair.answer(prompt, 0, 24)).rstrip(".").split()[-1:] == [str(result)]
    return round(right / len(SUMS), 3)


def converse(pair: Pair) -> None:
    """Print one chat of several turns."""
    messages: list[dict[str, str]] = []
    for said in CONVERSATION:
        messages.append({"role": "user", "content": said})
        messages.append({"role": "assistant", "content": pair.text(pair.answer(pair.prompt(messages), 0))})
        print(f"[turns] {said}\n  {messages[-1]['content']!r}", flush=True)


def fairy_tales(pair: Pair, temperature: float) -> list[tuple[list[int], list[int]]]:
    """Continuations of old prose, which the draft finds hard."""
    prompt = [BOS, *pair.tokenizer.encode(FAIRY_TALE, add_special_tokens=False)]
    return [(prompt, pair.answer(prompt, temperature, 120)) for _ in range(1 if temperature == 0 else 2)]


def measure(pair: Pair, corpus: Path | None) -> dict[str, Any]:
    """Print the answers and return all figures."""
    figures: dict[str, Any] = {"sums": correct_sums(pair)}
    for temperature in (0.0, 0.6):
        torch.manual_seed(0)
        answers = ask_all(pair, temperature)
        lengths = [len(said) for _, said in answers]
        figures[f"T={temperature} mean answer"] = round(math.fsum(lengths) / len(lengths), 1)
        figures[f"T={temperature} agreement"] = agreement(pair, answers)
        hard = fairy_tales(pair, temperature)
        for budget in BUDGETS:
            figures[f"T={temperature} budget {budget}"] = tokens_per_pass(pair.draft, answers, budget)
            figures[f"T={temperature} budget {budget} prose"] = tokens_per_pass(pair.draft, hard, budget)
    converse(pair)
    if corpus:
        for name, model in (("target", pair.target), ("draft", pair.draft)):
            figures[f"loss {name}"] = validation_losses(model, corpus)
    figures["ended answers"] = round(sum(said[-1] == END for _, said in answers) / len(answers), 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--corpus", type=Path, help="folder with validation.json in the pair's own tokens")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(json.dumps(measure(Pair(options.target, options.draft), options.corpus), indent=1))


if __name__ == "__main__":
    main()
