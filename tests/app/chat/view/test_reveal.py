"""A burst is spread over the time to the next one, and the text is never more than a burst behind."""

from app.chat.view.reveal import Reveal


def test_the_first_burst_is_shown_at_once() -> None:
    reveal = Reveal()
    reveal.add(10, 5.0)
    assert reveal.shown(5.0) == 10


def test_a_burst_comes_evenly() -> None:
    reveal = Reveal()
    reveal.add(10, 0.0)
    reveal.add(20, 1.0)
    assert [reveal.shown(at) for at in (1.0, 1.25, 1.5, 2.0, 9.0)] == [10, 15, 20, 30, 30]


def test_what_is_left_is_shown_when_the_next_burst_comes() -> None:
    reveal = Reveal()
    reveal.add(10, 0.0)
    reveal.add(20, 1.0)
    reveal.add(5, 1.2)
    assert reveal.shown(1.2) == 30


def test_the_end_shows_everything() -> None:
    reveal = Reveal(3)
    reveal.add(10, 0.0)
    reveal.add(20, 1.0)
    reveal.finish()
    assert reveal.shown(1.0) == 33
