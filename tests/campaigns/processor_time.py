"""A pytest plugin that measures what each test costs in processor time, its child processes included.

`python -m pytest -p tests.campaigns.processor_time --processor-times FILE` writes one JSON line per test: its node
identity, seconds of its own process, seconds of the children that ended meanwhile, seconds by the clock. The summary
names the files that cost the most. With xdist every worker measures its own tests.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

_SHOWN = 25
_LINES = pytest.StashKey[list[dict[str, object]]]()


def _seconds() -> tuple[float, float, float]:
    used = os.times()
    return used.user + used.system, used.children_user + used.children_system, time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The file to write."""
    parser.addoption("--processor-times", type=Path, default=None, help="write the processor time of each test here")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure set-up, call and tear-down together: a shared fixture is paid by the first test that asks for it."""
    before = _seconds()
    result = yield
    own, children, clock = (round(after - then, 4) for after, then in zip(_seconds(), before, strict=True))
    line: dict[str, object] = {"test": item.nodeid, "own": own, "children": children, "clock": clock}
    item.config.stash.setdefault(_LINES, []).append(line)
    if path := item.config.getoption("--processor-times"):
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the files that cost the most."""
    files: Counter[str] = Counter()
    path = config.getoption("--processor-times")
    for line in path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []:
        entry = json.loads(line)
        files[entry["test"].split("::")[0]] += entry["own"] + entry["children"]
    terminalreporter.section(f"processor time: {sum(files.values()):.0f} s")
    for name, seconds in files.most_common(_SHOWN):
        terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
