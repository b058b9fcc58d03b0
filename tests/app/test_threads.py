"""No worker thread ends silently: whatever is raised in it is told, and the next order is served.

The threads are found in the source: one that is not made by `app.system.background`, that has no words for its
notice, or no proof below fails here.
"""

import ast
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.installation.runtime.builds import UNKNOWN
from app.installation.runtime.hardware import Hardware
from app.installation.runtime.manager import RuntimeManager
from app.shell.faults.thread_faults import FAULTS, ThreadFaults
from app.system import background
from app.ui.notices import Notice
from tests.app.installation.conftest import make_dependencies
from tests.app.sources import sources
from tests.app.thread_proofs import PROOFS, Case, Panic

BACKGROUND = "app/system/background.py"
BY_PARAMETER = {"app/ui/jobs.py", "app/system/background.py"}
"""Where the name of a thread is that of a parameter, which those who call it give as a literal."""

MADE_BY_HAND = {
    "Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor", "ThreadPool", "start_new_thread", "to_thread",
    "run_in_executor", "QThreadPool", "QRunnable", "QThread", "run_coroutine_threadsafe",
}  # fmt: skip
NAMED = {"start": 0, "lasting": 0, "pool": 1, "Task": 0, "Jobs": 1}
"""What makes a thread here, and which of its arguments is the name."""


# ---- what the source says -------------------------------------------------------------------------------------------


WANTED = rf"\b({'|'.join(sorted(MADE_BY_HAND | set(NAMED) - {'start'}))}|app\.system\.background)\b"
"""In modules that have none of these names there is nothing to look for; to parse them takes seconds."""


def modules() -> dict[str, tuple[ast.AST, ...]]:
    """The nodes of the others."""
    return {each.place: each.nodes for each in sources("app", WANTED)}


def called(node: ast.expr) -> str:
    """The last name of what is called."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def from_background(nodes: tuple[ast.AST, ...]) -> set[str]:
    """The names that a module has from `app.system.background`, and the classes made of them."""
    found = {"Task", "Jobs"}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "app.system.background":
            found |= {each.name for each in node.names}
    return found


def names_of_threads() -> dict[str, set[str]]:
    """Name of each thread -> the modules that make it; `?` for one that is no literal."""
    found: dict[str, set[str]] = {}
    for module, nodes in modules().items():
        known = from_background(nodes)
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known & set(NAMED):
                place = NAMED[node.func.id]
                name = node.args[place] if len(node.args) > place else None
                literal = name.value if isinstance(name, ast.Constant) else "?"
                found.setdefault(str(literal), set()).add(module)
    return found


def test_threads_are_made_by_background_alone() -> None:
    made = [
        f"{module}:{node.lineno}"
        for module, nodes in modules().items()
        if module != BACKGROUND
        for node in nodes
        if isinstance(node, ast.Call) and called(node.func) in MADE_BY_HAND
    ]
    assert made == [], "make threads with app.system.background.start, or guard them with app.system.background.lasting"


def test_threads_of_qt_go_on_after_an_error() -> None:
    classes = [
        (f"{module}:{node.lineno}", node)
        for module, nodes in modules().items()
        if module != BACKGROUND
        for node in nodes
        if isinstance(node, ast.ClassDef) and MADE_BY_HAND & set(map(called, node.bases))
    ]
    assert len(classes) == 2, "the archive and the link to the engine"
    for place, node in classes:
        assert set(map(called, node.bases)) == {"QThread"}, place
        run = next(each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "run")
        assert [called(each.func) for each in run.decorator_list if isinstance(each, ast.Call)] == ["lasting"], place


def test_every_thread_has_words_for_its_notice_and_a_proof() -> None:
    names = names_of_threads()
    assert names.pop("?") <= BY_PARAMETER, "a thread's name is a literal"
    assert set(names) == set(FAULTS)
    assert set(names) == set(PROOFS)


# ---- what the threads do --------------------------------------------------------------------------------------------


@pytest.fixture
def faults(qapp: QObject, monkeypatch: pytest.MonkeyPatch) -> ThreadFaults:
    """What the application has in the place of Python's hook for threads."""
    made = ThreadFaults()
    monkeypatch.setattr(threading, "excepthook", made.on_thread_error)
    return made


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What is held until every thread of the test has ended. Garbage of Qt is not looked for in a thread meanwhile."""
    before = set(threading.enumerate())
    made: list[object] = []
    gc.disable()
    yield made
    for thread in set(threading.enumerate()) - before:
        if thread.daemon and not isinstance(thread, threading._DummyThread):  # those of Qt were waited for
            thread.join(10)
    made.clear()
    gc.collect(0)
    gc.enable()


@pytest.mark.parametrize("kind", [RuntimeError, Panic])
@pytest.mark.parametrize("name", sorted(PROOFS))
def test_an_error_is_told_and_the_next_order_is_served(
    name: str,
    kind: type[BaseException],
    faults: ThreadFaults,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    kept: list[object],
) -> None:
    notices: list[Notice] = []
    faults.notice_raised.connect(notices.append)
    said = FAULTS[name][0].partition("{")[0]

    def told(of: str) -> bool:
        return any(each.message.startswith(said) and "unforeseen" in each.message and each.hint for each in notices)

    PROOFS[name](Case(kind("unforeseen"), qtbot, monkeypatch, tmp_path, told, kept))
    assert f"An error in the thread '{name}'" in caplog.text
    assert "in fail" in caplog.text or "in call" in caplog.text or "in run" in caplog.text, "with its traceback"


# ---- the one way to make them ---------------------------------------------------------------------------------------


def test_work_that_fails_is_reported_and_answered(thread_errors: list[BaseException | None]) -> None:
    error = Panic()

    def fail() -> None:
        raise error

    answers: list[BaseException] = []
    background.start("test", fail, answers.append).join(10)
    assert answers == [error]
    assert thread_errors == [error]
    assert background.attempt(fail, lambda met: met) is error
    assert background.attempt(lambda: 7, lambda _: 0) == 7


def test_an_answer_that_fails_is_reported_too(thread_errors: list[BaseException | None]) -> None:
    def fail(*_: object) -> None:
        raise SystemExit(1)

    background.start("test", fail, fail).join(10)
    assert [type(each) for each in thread_errors] == [SystemExit, SystemExit]


def test_a_hook_that_fails_ends_no_thread(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_arguments: object) -> None:
        raise ValueError("the hook")

    monkeypatch.setattr(threading, "excepthook", fail)
    background.report(RuntimeError("of a thread"))
    assert "the hook" in caplog.text
    assert "of a thread" in caplog.text


def test_lasting_work_is_begun_again_with_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch, thread_errors: list[BaseException | None]
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    runs: list[str] = []

    class Worker:
        @background.lasting("tireless")
        def run(self) -> None:
            runs.append(threading.current_thread().name)
            if len(runs) < 8:
                raise Panic

    thread = threading.Thread(target=Worker().run)
    thread.start()
    thread.join(10)
    assert runs == ["tireless"] * 8
    assert len(thread_errors) == 7
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_a_pool_raises_where_its_results_are_taken() -> None:
    def fail(_: int) -> None:
        raise Panic

    with background.pool(2, "test") as pool, pytest.raises(Panic):
        list(pool.map(fail, [1, 2]))


# ---- what the hooks do ----------------------------------------------------------------------------------------------


def test_every_hook_logs_and_ends_with_the_program(qapp: QObject, caplog: pytest.LogCaptureFixture) -> None:
    import sys

    before = sys.excepthook, sys.unraisablehook, threading.excepthook
    faults = ThreadFaults()
    faults.begin()
    try:
        sys.excepthook(ValueError, ValueError("of a slot"), None)

        class Finalised:
            def __del__(self) -> None:
                raise ValueError("of a finaliser")

        Finalised()
    finally:
        faults.end()
        sys.excepthook, sys.unraisablehook, threading.excepthook = before
    assert "of a slot" in caplog.text
    assert "of a finaliser" in caplog.text


def test_notices_wait_for_the_window(faults: ThreadFaults, qtbot: QtBot) -> None:
    background.start("nobody knows it", [].pop).join(10)
    notices: list[Notice] = []
    faults.notice_raised.connect(notices.append)  # as the window does when it is there
    qtbot.waitUntil(lambda: len(notices) == 1)
    assert notices[0].message.startswith("Work in the background has ended because of an error in this program")
    assert "IndexError" in notices[0].message


def test_a_hardware_look_up_that_fails_leaves_every_engine_to_choose_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, thread_errors: list[BaseException | None]
) -> None:
    def fail() -> Hardware:
        raise Panic

    monkeypatch.setattr("app.installation.runtime.hardware.look", fail)
    monkeypatch.setattr(RuntimeManager, "locks", {})
    dependencies = make_dependencies(tmp_path)
    proposal = RuntimeManager(cast(Any, None), dependencies.place, lambda: dependencies).propose()
    assert proposal is not UNKNOWN
    assert [type(each) for each in thread_errors] == [Panic]
