"""When a model was used, in a line that has little room."""

from datetime import UTC, datetime, timedelta

from app.library.picker.entry import Entry, Where


def line(when: datetime) -> str:
    return Entry("a", "a", "a", Where.CACHE, last_used=when.timestamp()).figures.rpartition("  ·  ")[2]


def test_the_day_is_told_in_few_words() -> None:
    now = datetime.now(UTC).astimezone().replace(hour=12)
    assert line(now) == "used today"
    assert line(now - timedelta(days=1)) == "used yesterday"
    assert line(now.replace(year=now.year - 1, month=5)) == f"used May {now.year - 1}"
    earlier = now - timedelta(days=2)
    if earlier.year == now.year:
        assert line(earlier) == f"used {earlier.day} {earlier:%b}"
    assert all(len(line(now - timedelta(days=days))) <= len("used 28 Nov 2026") for days in range(0, 800, 7))
