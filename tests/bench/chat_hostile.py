"""How long hostile answers hold the window: the longest turn of the event loop, and the seconds until all is written.

`python -m tests.bench.chat_hostile --json`. Goals: no turn above 50 ms, whatever the text, and a few seconds until it
is shown. Each text comes at once, as one answer; then it is opened as a stored conversation, scrolled through from its
end to its beginning, and laid out in another width; then the same with the text as a question. `own_ms` is the longest
that a turn kept a processor busy: what is above it, other programs took.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from PySide6.QtWidgets import QApplication

from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Message
from app.chat.text.plain_text_view import PlainTextView
from app.chat.typesetting.code_kinds import CodeText
from app.chat.typesetting.formulas import Latex
from app.chat.view.conversation_view import ConversationView
from app.ui.theme import LIGHT

SCROLLS = 20
LONGEST_SECONDS = 60
TEXTS = {
    "line_of_1_mb": "a" * 1_000_000,
    "words_of_1_mb": "word " * 200_000,
    "table_of_10000_rows": "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 10_000,
    "table_of_10000_columns": "|a" * 10_000 + "|\n" + "|-" * 10_000 + "|\n" + "|1" * 10_000 + "|\n",
    "open_fence_of_1_mb": "```python\n" + "x = 1\n" * 170_000,
    "dense_code": "```python\n" + "x=(1,'a')+2;" * 20_000,
    "open_list_of_10000_items": "- item\n" * 10_000,
    "nested_lists": "- a\n" + "  - deep\n" * 5_000,
    "quotes_in_quotes": "".join(">" * (number % 50) + "a\n" for number in range(5_000)),
    "deep_quote": "> " * 100_000,
    "zero_width": "\u200b\u202e\u2066" * 50_000,
    "two_directions": "a\u0627" * 50_000,
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467" * 20_000,
    "brackets": "[" * 100_000,
    "emphasis": "*a* " * 25_000,
    "formulas": "$a$ " * 10_000,
    "endless_code": "```easytrieve\n" + "\t" * 1_200 + "\n```\n\nend\n",
    "nested_formulas": "".join("$" + "\\frac{1}{1+" * 8 + f"y_{number}" + "}" * 8 + "$ " for number in range(3))
    + "$"
    + "\\frac{1}{1+" * 40
    + "x"
    + "}" * 40
    + "$ end",
    "giant_rules": "".join(f"$$\\rule{{{number}em}}{{999999em}}$$\n\n" for number in range(1, 9)),
    "large_rules": "".join(f"$$\\rule{{40em}}{{{number / 4}em}}$$\n\n" for number in range(40, 120)),
    "piled_marks": ("a" + "\u0301" * 400 + " ") * 400,
    "other_formulas": "".join(f"$x_{{{number}}}$ " for number in range(10_000)),
}


class Turn(NamedTuple):
    """One turn of the event loop: its length in seconds, and how long it kept a processor busy."""

    seconds: float
    own: float


def settle(view: ConversationView) -> list[Turn]:
    """Run the event loop until all that can be seen is written; returns every turn of it."""
    turns = []
    end = time.perf_counter() + LONGEST_SECONDS
    while time.perf_counter() < end:
        turns.append(turn(QApplication.processEvents))
        answer = view.answers[-1]
        questions = [each for question in view.questions for each in question.findChildren(PlainTextView)]
        if not (answer.body.is_behind or answer._again.isActive() or any(each.is_behind for each in questions)):
            break
        time.sleep(0.0005)
    return turns


def shown() -> ConversationView:
    """An empty conversation on the screen."""
    view = ConversationView(LIGHT)
    view.resize(1000, 800)
    view.show()
    QApplication.processEvents()
    return view


def done(view: ConversationView) -> None:
    """Take it away."""
    view.close()
    view.formulas.close()
    view.deleteLater()
    QApplication.processEvents()


def turn(work: Callable[[], object]) -> Turn:
    """One thing that is done at once."""
    start, own = time.perf_counter(), time.thread_time()
    work()
    return Turn(time.perf_counter() - start, time.thread_time() - own)


def arriving(text: str) -> tuple[list[Turn], float]:
    """The turns while such an answer comes, and the seconds until it is written."""
    view = shown()
    view.add_turn(Message("user", "q"), Message("assistant", "", AnswerEnding.OPEN))
    begin = time.perf_counter()
    turns = [turn(lambda: view.change_answer(Message("assistant", "", AnswerEnding.OPEN), text)), *settle(view)]
    seconds = time.perf_counter() - begin
    done(view)
    return turns, seconds


def stored(question: str, text: str) -> list[Turn]:
    """The turns while a conversation is opened, scrolled through and made narrower."""
    conversation = Conversation()
    _, answer = conversation.ask(question)
    conversation.change(Message("assistant", text, parent=answer.parent, id=answer.id))
    view = shown()
    turns = [turn(lambda: view.show_conversation(conversation)), *settle(view)]
    bar = view.verticalScrollBar()
    for number in range(SCROLLS):
        place = bar.maximum() * (SCROLLS - 1 - number) // SCROLLS
        turns.append(turn(partial(bar.setValue, place)))
        turns += settle(view)
    turns += [turn(lambda: view.resize(700, 800)), *settle(view)]
    done(view)
    return turns


def warm_up() -> None:
    """Read the fonts and the styles, as the first answer of a session does."""
    view = shown()
    told: list[object] = []
    view.formulas.settled.connect(told.append)
    view.formulas.code.found.connect(told.append)
    view.formulas.is_known(Latex("x", "$", displayed=False))
    view.formulas.code.runs(CodeText("x", "python"))
    while len(told) < 2:
        QApplication.processEvents()
    done(view)


def measure(names: list[str]) -> dict[str, dict[str, float]]:
    """The figures of each text."""
    found = {}
    for name in names:
        live, seconds = arriving(TEXTS[name])
        opened, asked = stored("q", TEXTS[name]), stored(TEXTS[name], "a")
        found[name] = {
            "longest_ms": longest(live),
            "seconds_until_written": round(seconds, 1),
            "longest_stored_ms": longest(opened),
            "longest_question_ms": longest(asked),
            "own_ms": round(max(each.own for each in (*live, *opened, *asked)) * 1000, 1),
        }
    return found


def longest(turns: list[Turn]) -> float:
    """In milliseconds."""
    return round(max(each.seconds for each in turns) * 1000, 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default=",".join(TEXTS), help="names of texts, with commas")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication([])
    application.setStyle("Fusion")
    sys.setswitchinterval(0.00005)  # both as the application does once its window is built
    gc.freeze()
    warm_up()
    figures = measure(options.only.split(","))
    print(json.dumps(figures) if options.json else "\n".join(f"{name}: {each}" for name, each in figures.items()))


if __name__ == "__main__":
    main()
