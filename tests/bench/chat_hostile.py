"""How long hostile answers hold the window: the longest turn of the event loop, and the seconds until all is written.

`python -m tests.bench.chat_hostile --json`. Goals: no turn above 50 ms, whatever the text, and a few seconds until it
is shown. Each text comes at once, as one answer; then it is opened as a stored conversation, scrolled through from its
end to its beginning, and laid out in another width.
"""

import argparse
import json
import os
import time

from PySide6.QtWidgets import QApplication

from app.chat.conversation import Conversation, Ending, Message
from app.chat.conversation_view import ConversationView
from app.theme import LIGHT

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
}


def settle(view: ConversationView) -> list[float]:
    """Run the event loop until all that can be seen is written; returns the length of every turn of it, in seconds."""
    turns = []
    end = time.perf_counter() + LONGEST_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        QApplication.processEvents()
        turns.append(time.perf_counter() - start)
        answer = view.answers[-1]
        if not answer.body.is_behind and not answer._again.isActive():
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
    view.deleteLater()
    QApplication.processEvents()


def turn(work: object) -> float:
    """The seconds of one thing that is done at once."""
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start


def arriving(text: str) -> tuple[float, float]:
    """The longest turn in milliseconds while such an answer comes, and the seconds until it is written."""
    view = shown()
    view.add_turn(Message("user", "q"), Message("assistant", "", Ending.OPEN))
    begin = time.perf_counter()
    first = turn(lambda: view.change_answer(Message("assistant", "", Ending.OPEN), text))
    longest = max(first, *settle(view)) * 1000
    seconds = time.perf_counter() - begin
    done(view)
    return longest, seconds


def stored(text: str) -> float:
    """The longest turn in milliseconds while a conversation with it is opened, scrolled through and made narrower."""
    conversation = Conversation()
    _, answer = conversation.ask("q")
    conversation.change(Message("assistant", text, parent=answer.parent, id=answer.id))
    view = shown()
    turns = [turn(lambda: view.show_conversation(conversation)), *settle(view)]
    bar = view.verticalScrollBar()
    for number in range(SCROLLS):
        turns.append(turn(lambda part=number: bar.setValue(bar.maximum() * (SCROLLS - 1 - part) // SCROLLS)))
        turns += settle(view)
    turns += [turn(lambda: view.resize(700, 800)), *settle(view)]
    done(view)
    return max(turns) * 1000


def measure(names: list[str]) -> dict[str, dict[str, float]]:
    """The figures of each text."""
    found = {}
    for name in names:
        longest, seconds = arriving(TEXTS[name])
        found[name] = {
            "longest_ms": round(longest, 1),
            "seconds_until_written": round(seconds, 1),
            "longest_stored_ms": round(stored(TEXTS[name]), 1),
        }
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default=",".join(TEXTS), help="names of texts, with commas")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication([])
    application.setStyle("Fusion")
    figures = measure(options.only.split(","))
    print(json.dumps(figures) if options.json else "\n".join(f"{name}: {each}" for name, each in figures.items()))


if __name__ == "__main__":
    main()
