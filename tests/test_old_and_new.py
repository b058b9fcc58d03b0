"""How two checkouts are compared: in turns, by medians."""

from argparse import Namespace
from pathlib import Path

import pytest

from tests.bench import old_and_new
from tests.bench.old_and_new import NEW, Figures, compare


def test_checkouts_take_turns_and_medians_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_milliseconds, new_milliseconds = iter([10.0, 12.0, 90.0]), iter([13.0, 11.0, 12.6])
    order: list[str] = []

    def measured(checkout: Path, scratch: Path, _options: Namespace) -> Figures:
        assert scratch.is_dir(), "what a turn leaves is there in the next one"
        order.append("new" if checkout == NEW else "old")
        return {"paint_ms": next(new_milliseconds if checkout == NEW else old_milliseconds)}

    monkeypatch.setitem(old_and_new.MEASURES, "gap", measured)
    found = compare(tmp_path, ["gap"], Namespace(turns=3))["paint_ms"]
    assert order == ["old", "new", "new", "old", "old", "new"], "neither is always the first"
    assert (found["old_median"], found["new_median"]) == (12.0, 12.6)
    assert found["old"] == [10.0, 12.0, 90.0]
    assert found["is_as_fast"], "5 % are nothing"
