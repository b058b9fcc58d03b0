"""What is looked for is found in the text as it is seen, message by message, a little at a time."""

import itertools

import pytest
from PySide6.QtGui import QTextDocument
from pytestqt.qtbot import QtBot

from app.chat.finding.hits import Hits, Place
from app.chat.finding.marks import stretches_in
from app.chat.finding.needle import Needle, Wanted
from app.chat.finding.search import Search
from app.chat.finding.visible_text import VisibleText
from app.chat.history.message import TEXT, THOUGHT, Message
from app.chat.text.document_style import Look
from app.chat.text.markdown_view import MarkdownView
from app.chat.typesetting.layout_cost import Budget
from app.ui.theme import LIGHT

MARKDOWN = """# Head *it* line

Hello **wor**ld &amp; [link](http://x.y) `co  de` and $a^2$ soft
line two   spaces  \nhard break

- one
- two
  - three link

> quote
> more link

| a | b link |
|---|---|
| 1 | 2 |

```python
def link(x):
    return x   # link <b>
```

    indented link

$$
x = y
$$

<b>html</b> link

tail, open link"""


@pytest.mark.parametrize("words", ["link", "a", "world", "link(x", "a^2", "e", "x = y", "<b>", "co de", "hard"])
def test_as_many_hits_as_the_document_shows(words: str, qtbot: QtBot) -> None:
    view = MarkdownView(Look(LIGHT))
    qtbot.addWidget(view)
    view.show_text(MARKDOWN)
    view.work()
    text = VisibleText()
    for end in (40, 200, len(MARKDOWN)):  # it grows
        text.follow(MARKDOWN[:end])
        while not text.work(Budget(0)):
            pass
    needle = Needle(Wanted(words))
    shown = list(stretches_in(view.texts[0].document(), needle))
    (lines,) = text.sections()
    assert len(shown) == sum(map(needle.count, lines)) > 0


@pytest.mark.parametrize(
    ("wanted", "line", "found"),
    [
        (Wanted("ab"), "Ab cab AB", [(0, 2), (4, 6), (7, 9)]),
        (Wanted("ab", matches_case=True), "Ab cab AB", [(4, 6)]),
        (Wanted("ab", is_whole=True), "Ab cab AB.", [(0, 2), (7, 9)]),
        (Wanted("cafe"), "Das Café, CAFÉ", [(4, 8), (10, 14)]),
        (Wanted("café", matches_case=True), "cafe café", [(5, 9)]),
        (Wanted("각"), "가각", [(1, 2)]),
        (Wanted("a.b"), "axb a.b", [(4, 7)]),
        (Wanted("a b"), "a\u00a0b", [(0, 3)]),
        (Wanted("שלום"), "אמר שלום", [(4, 8)]),
        (Wanted(""), "anything", []),
    ],
)
def test_what_counts_as_the_same(wanted: Wanted, line: str, found: list[tuple[int, int]]) -> None:
    assert Needle(wanted).spans(line) == found


def test_a_message_is_passed_over_only_if_nothing_of_it_can_be_meant() -> None:
    needle = Needle(Wanted("hello world"))
    assert needle.may_be_in("say **Hel**lo *World*")
    assert needle.may_be_in("[hel](http://x)lo wor&#108;d")
    assert not needle.may_be_in("hello there")
    assert needle.may_be_in("hel[lo](http://x.y/a_(b)) w&ouml;rld")
    assert needle.may_be_in("hel[lo][1] world")
    assert not needle.may_be_in("hello [there](http://x) &amp; here"), "a link alone is no reason to read a message"
    assert Needle(Wanted("ΟΔΟΣ")).may_be_in("η οδοσποιία")
    assert Needle(Wanted("…")).may_be_in("anything")


def test_letters_beyond_16_bits_take_two_places_of_a_document(qapp: object) -> None:
    document = QTextDocument()
    document.setPlainText("😀 dragon 😀 dragon")
    assert list(stretches_in(document, Needle(Wanted("dragon")))) == [(3, 9), (13, 19)]


def test_hits_are_numbered_in_the_order_of_reading() -> None:
    hits = Hits()
    for section, count in (((0, TEXT, 0), 2), ((1, THOUGHT, 0), 0), ((1, TEXT, 0), 1), ((4, TEXT, 1), 3)):
        hits.add(section, count)
    assert hits.count == 6
    places = [hits.place(number) for number in range(6)]
    assert places == sorted(places)
    assert [hits.number_from(each) for each in places] == list(range(6))
    assert hits.number_from(Place((2, THOUGHT, 0))) == 3
    assert hits.number_from(Place((9, THOUGHT, 0))) == 6
    hits.truncate(1)
    assert hits.count == 2


def talk(turns: int) -> list[Message]:
    said = (
        (
            Message("user", f"Question {turn}\nabout dragons"),
            Message("assistant", f"<think>hm {turn}</think>**Drag**on"),
        )
        for turn in range(turns)
    )
    return [each for turn in said for each in turn]


def test_a_long_conversation_is_searched_in_slices() -> None:
    ticks = itertools.count()
    search = Search()
    search.begin(Wanted("dragon"), talk(50))
    slices = 0
    while not search.work(Budget(5, lambda: float(next(ticks)))):
        slices += 1
    assert search.hits.count == 100
    assert slices > 10
    search.begin(Wanted("hm"), talk(2))
    search.work(Budget())
    assert [search.hits.place(each).section for each in range(2)] == [(1, THOUGHT, 0), (3, THOUGHT, 0)]


def test_an_answer_that_grows_is_searched_again_and_no_other() -> None:
    search, messages = Search(), talk(2)
    search.begin(Wanted("dragon"), messages)
    search.work(Budget())
    last = messages[-1]
    grown = Message("assistant", last.text + " dragon\n\n- dragon", id=last.id)
    search.change_last(grown)
    assert search.work(Budget())
    assert search.hits.count == 6
    search.change_last(Message("assistant", "dragon dragon"))
    assert search.hits.count == 6, "a message of another path"


def test_a_long_question_is_found_as_it_is_shown() -> None:
    text = "\n".join(f"line {number}\x0c dragon" for number in range(300))
    search = Search()
    search.begin(Wanted("dragon"), [Message("user", text)])
    search.work(Budget())
    assert search.hits.count == 300
    assert search.hits.place(299).section[2] > 0, "it has several sections"
