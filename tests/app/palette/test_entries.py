"""What the palette finds, and in which order."""

import pytest

from app.shell.command_palette import MOST_RECENT, Entry, found, match, used


def entry(name: str, where: str = "") -> Entry:
    """Something to do nothing with."""
    return Entry(name, name, where, "", lambda: None)


ENTRIES = [
    entry("New chat", "File"),
    entry("Export chat", "File"),
    entry("Speculation tree", "View"),
    entry("Quit", "File"),
]


def names(wanted: str, recent: tuple[str, ...] = ()) -> list[str]:
    """The names of what is found."""
    return [hit.entry.name for hit in found(ENTRIES, wanted, recent)]


def test_without_letters_everything_is_there_the_last_used_first() -> None:
    assert names("", ("Quit", "gone", "Export chat")) == ["Quit", "Export chat", "New chat", "Speculation tree"]


@pytest.mark.parametrize(
    ("wanted", "first"),
    [("exp", "Export chat"), ("nc", "New chat"), ("tree spec", "Speculation tree"), ("QUIT", "Quit")],
)
def test_a_few_letters_find_it(wanted: str, first: str) -> None:
    assert names(wanted)[0] == first


def test_what_does_not_fit_is_not_there() -> None:
    assert names("xyz") == []
    assert names("tahc") == []


def test_the_menu_finds_its_entries_after_names() -> None:
    assert set(names("file")) == {"New chat", "Export chat", "Quit"}
    assert found(ENTRIES, "file", ())[0].places == ()


def test_equally_good_ones_come_by_use() -> None:
    assert names("chat", ("Export chat",))[:2] == ["Export chat", "New chat"]
    assert names("chat")[:2] == ["New chat", "Export chat"]


def test_the_letters_that_fit_are_told() -> None:
    fit = match("nc", "New chat")
    assert fit is not None
    assert fit.places == (0, 4)


def test_letters_side_by_side_beat_scattered_ones() -> None:
    together, scattered = match("tree", "the tree"), match("tree", "t r e e")
    assert together is not None
    assert scattered is not None
    assert together.places == (4, 5, 6, 7)


def test_recent_keys_are_kept_once_and_not_for_ever() -> None:
    recent: tuple[str, ...] = ()
    for number in range(100):
        recent = used(recent, f"key {number % 40}")
    assert recent[0] == "key 19"
    assert len(recent) == len(set(recent)) == MOST_RECENT
