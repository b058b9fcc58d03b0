"""Reads the licensed texts in raw/: friendly chit-chat and four books of fairy tales."""

import random
import re
from pathlib import Path

from dialogues.conversation import Dialogue

RAW = Path(__file__).parent / "raw"
BOOKS = ("alice", "andersen", "grimm", "oz")
UNWANTED = re.compile(
    r"\b(sex|fuck|shit|suck|damn|bitch|naked|ass|af|hell|crap|kill"
    r"|gay|lesbian|virgin|love me|marry|suicide|overdose)\b",
    re.I,
)
# These answers deny the name of the model, or repeat the one joke of the set.
CONFLICTING = ("I don't have a name", "National Suicide", "seagulls", "goldfish", "I haven't met any other bots")
PARAGRAPHS_PER_PASSAGE = 8


def chit_chat(rng: random.Random) -> list[Dialogue]:
    """All wordings of all questions, joined to chats of one to three turns."""
    text = (RAW / "qna_chitchat_friendly.qna").read_text(encoding="utf-8")
    turns = []
    for section in re.split(r"^# \? ", text, flags=re.M)[1:]:
        answer = re.search(r"```[a-z]*\n(.*?)\n```", section, re.S)
        if answer is None or UNWANTED.search(answer[1]) or any(words in answer[1] for words in CONFLICTING):
            continue
        first, *rest = section.split("\n")
        questions = [first, *(line[2:] for line in rest if line.startswith("- "))]
        turns += [(question.strip(), answer[1].strip()) for question in questions if not UNWANTED.search(question)]
    rng.shuffle(turns)
    dialogues = []
    while turns:
        count = rng.choices([1, 2, 3], [6, 3, 1])[0]
        dialogues.append(Dialogue("", tuple(turns[:count])))
        turns = turns[count:]
    return dialogues


def fairy_tales() -> list[str]:
    """Passages of a few paragraphs each."""
    passages = []
    for book in BOOKS:
        text = (RAW / f"{book}.txt").read_text(encoding="utf-8")
        paragraphs = [re.sub(r"\s+", " ", paragraph).strip() for paragraph in text.split("\n\n")]
        paragraphs = [paragraph for paragraph in paragraphs if len(paragraph) > 40]
        starts = range(0, len(paragraphs), PARAGRAPHS_PER_PASSAGE)
        passages += ["\n\n".join(paragraphs[start : start + PARAGRAPHS_PER_PASSAGE]) for start in starts]
    return passages
