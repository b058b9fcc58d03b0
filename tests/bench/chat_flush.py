"""What a long chat costs: milliseconds per flush, opening a conversation, search, typing while an answer grows.

`python -m tests.bench.chat_flush --json`. Goals: a flush of at most 16 ms, flat within 1.5x from 1k to 32k tokens;
2,000 messages opened within 300 ms; 10,000 messages searched within 100 ms; a key shown within 33 ms at the 99th
percentile. Hostile answers are the matter of `tests.bench.chat_hostile`.
"""

import argparse
import json
import os
import statistics
import time

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPlainTextEdit

from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Message
from app.chat.view.answer_view import AnswerView
from app.chat.view.conversation_view import ConversationView
from tests.bench.chat_hostile import done, settle, shown
from tests.bench.chat_search import search_ms

SIZES = (1_000, 8_000, 32_000)  # tokens
FLUSHES = 120
CHARACTERS_PER_FLUSH = 24  # a round of six tokens

PARAGRAPH = (
    "A *paragraph* with `code`, a [link](https://example.org) and **some** words that are long enough to wrap once "
    "or twice in the column.\n\n"
)
SECTION = (
    "## A heading\n\n" + PARAGRAPH * 3 + "- one item\n- another item\n- a third\n\n"
    "```python\ndef area(radius):\n    return 3.14159 * radius ** 2\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)


def growing(view: ConversationView, text: str) -> AnswerView:
    """An answer that has begun, with this much text."""
    view.add_turn(Message("user", "q"), Message("assistant", "", AnswerEnding.OPEN))
    view.change_answer(Message("assistant", "", AnswerEnding.OPEN), text)
    settle(view)
    return view.answers[-1]


def flush_ms(tokens: int) -> float:
    """The median of a flush, with its layout and painting, in an answer of that many tokens."""
    view = shown()
    text = SECTION * (tokens * 4 // len(SECTION) + 1)
    answer = growing(view, text[: tokens * 4])
    rest = text * 2
    spent = []
    for number in range(FLUSHES):
        piece = rest[number * CHARACTERS_PER_FLUSH : (number + 1) * CHARACTERS_PER_FLUSH]
        answer._throttle.cancel()
        answer._again.stop()
        start = time.perf_counter()
        view.change_answer(Message("assistant", "", AnswerEnding.OPEN), piece)
        answer._reveal.finish()
        answer._throttle.flush()
        QApplication.processEvents()
        spent.append((time.perf_counter() - start) * 1000)
    done(view)
    return statistics.median(spent)


def open_ms(messages: int) -> float:
    """Until a conversation of that many messages is on the screen."""
    conversation = Conversation()
    for number in range(messages // 2):
        _, answer = conversation.ask(f"Question number {number}?")
        conversation.change(Message("assistant", SECTION, parent=answer.parent, id=answer.id))
    view = shown()
    start = time.perf_counter()
    view.show_conversation(conversation)
    QApplication.processEvents()
    view.repaint()
    spent = (time.perf_counter() - start) * 1000
    done(view)
    return spent


def typing_ms(keys: int = 300) -> float:
    """The 99th percentile from a key to the end of the turn of the event loop that shows it, while an answer grows."""
    view = shown()
    answer = growing(view, SECTION * 30)
    field = QPlainTextEdit()
    field.show()
    spent = []
    for number in range(keys):
        view.change_answer(Message("assistant", "", AnswerEnding.OPEN), SECTION[number * 5 % 600 :][:24])
        start = time.perf_counter()
        QTest.keyClick(field, Qt.Key.Key_A)
        QApplication.processEvents()
        spent.append((time.perf_counter() - start) * 1000)
        QTest.qWait(8)
    answer._throttle.cancel()
    field.close()
    done(view)
    return sorted(spent)[int(len(spent) * 0.99)]


def main() -> None:
    """Measure everything and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication([])
    application.setStyle("Fusion")
    figures = {f"flush_ms_at_{size}_tokens": flush_ms(size) for size in SIZES}
    figures["flush_growth"] = figures[f"flush_ms_at_{SIZES[-1]}_tokens"] / figures[f"flush_ms_at_{SIZES[0]}_tokens"]
    figures["open_2000_messages_ms"] = open_ms(2_000)
    figures["search_10000_messages_ms"] = max(search_ms(10_000).values())
    figures["typing_p99_ms"] = typing_ms()
    figures = {name: round(value, 1) for name, value in figures.items()}
    print(json.dumps(figures) if options.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
