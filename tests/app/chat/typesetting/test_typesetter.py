"""What formulas and code can do to the process that draws them: nothing that anybody else has to wait for."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from pytestqt.qtbot import QtBot

from app import __main__ as command
from app.chat.typesetting import drawing_process, drawing_program
from app.chat.typesetting.code_kinds import CodeText
from app.chat.typesetting.drawing_process import DrawingProcess
from app.chat.typesetting.formulas import Formulas, Latex
from app.chat.typesetting.typesetter import Typesetter, TypesettingJob
from app.system import own_program

TABS = CodeText("\t" * 1_200, "easytrieve")  # a regular expression without an end
PATIENCE_SECONDS = 60.0
FORMULA = {"latex": "x^2", "displayed": False}

STAND_IN = """
import json, os, sys, time
write = lambda text: (sys.stdout.write(text + "\\n"), sys.stdout.flush())
if "broken" in sys.argv:
    sys.exit(1)
write('"ready"')
for line in sys.stdin:
    if "endless" in line:
        time.sleep(600)
    if "crash" in line:
        os._exit(9)
    write("no json" if "nonsense" in line else json.dumps([line.strip(), os.getpid()]))
"""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A process that starts at once, and does what it is asked."""

    def use(*arguments: str) -> None:
        monkeypatch.setattr(drawing_process, "_command", lambda: [sys.executable, "-c", STAND_IN, *arguments])

    use()
    return use


@pytest.fixture
def process() -> Iterator[DrawingProcess]:
    """The process of the application, with more time than a busy machine needs."""
    made = DrawingProcess(PATIENCE_SECONDS)
    yield made
    made.end()


class Hasty(DrawingProcess):
    """Waits a moment for what has no end, and with patience for everything else."""

    def __init__(self) -> None:
        super().__init__(PATIENCE_SECONDS)

    def ask(self, request: dict[str, object]) -> Any:
        self._seconds = 0.2 if request.get("latex") == "endless" else PATIENCE_SECONDS
        return super().ask(request)


def is_over(pid: int) -> bool:
    return not psutil.pid_exists(pid)


def latex(content: str) -> Latex:
    return Latex(content, "$", displayed=False)


def test_it_draws_formulas_and_finds_the_kinds_of_tokens(process: DrawingProcess) -> None:
    before = process.pid
    picture = process.ask(FORMULA)
    assert picture["svg"].startswith("<svg")
    assert process.ask({"latex": "\\frac{", "displayed": False}) is None
    runs = process.ask(CodeText("def f(): pass", "python").request)
    assert runs[0] == [3, "Token.Keyword"]
    assert sum(length for length, _ in runs) == len("def f(): pass")
    assert process.ask(CodeText("x", "no-such-language").request) == []
    pid = process.pid
    assert before is None, "it is not started before it is needed"
    assert pid is not None
    if sys.platform == "linux":
        limits = psutil.Process(pid).rlimit(psutil.RLIMIT_AS)
        assert max(limits) <= 1 << 30
    process.end()
    assert is_over(pid)


def test_what_takes_too_long_is_given_up_and_what_comes_after_it_is_done(stand_in: Callable[..., None]) -> None:
    process = Hasty()
    first = process.ask({"a": 1})
    assert process.ask({"latex": "endless"}) is None
    assert is_over(first[1])
    again = DrawingProcess(PATIENCE_SECONDS)
    pids = [again.ask({"a": number})[1] for number in (1, 2)]
    assert pids[0] == pids[1], "one process answers many"
    for each in ("crash", "nonsense"):
        assert again.ask({"latex": each}) is None
    assert again.ask({"a": 3})[0] == '{"a": 3}'
    process.end()
    again.end()


def test_a_process_that_does_not_start_is_not_tried_for_ever(
    stand_in: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in("broken")
    told: list[BaseException] = []
    monkeypatch.setattr(drawing_process, "report", told.append)
    process = DrawingProcess()
    assert [process.ask(FORMULA) for _ in range(5)] == [None] * 5
    assert len(told) == 1
    stand_in()
    assert process.ask(FORMULA) is None, "it was given up"


def test_a_regular_expression_without_an_end_leaves_code_without_colours(qtbot: QtBot) -> None:
    formulas = Formulas(typesetter=Typesetter(process=DrawingProcess(seconds=0.3)))
    code = formulas.code
    found: list[CodeText] = []
    code.found.connect(found.append)
    assert code.runs(TABS) == ()
    qtbot.waitUntil(lambda: TABS in found)
    assert code.is_settled(TABS)
    assert code.runs(TABS) == ()
    assert code.is_settled(CodeText(TABS.code + "\t", TABS.language)), "what goes on with it is not tried"
    formulas.close()


def test_the_process_ends_by_itself_when_it_takes_too_long_or_nobody_asks_any_more() -> None:
    environment = drawing_process._environment(-0.5)
    runs = [
        subprocess.Popen(
            drawing_process._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        for _ in range(2)
    ]
    for each in runs:
        assert each.stdout is not None
        assert each.stdout.readline() == '"ready"\n'
    busy, idle = runs
    assert busy.stdin is not None
    busy.stdin.write('{"code": "' + "\\t" * 1_200 + '", "language": "easytrieve"}\n')
    busy.stdin.flush()
    assert idle.communicate(timeout=60)[0] == ""
    assert idle.returncode == 0
    assert busy.wait(60) == 1
    busy.communicate()


def test_closing_does_not_wait_for_a_formula_without_an_end(stand_in: Callable[..., None], qtbot: QtBot) -> None:
    formulas = Formulas(typesetter=Typesetter(process=DrawingProcess(seconds=600.0)))
    formulas.is_known(latex("endless"))
    qtbot.waitUntil(lambda: formulas.typesetter.pid is not None)
    pid, begin = formulas.typesetter.pid, time.monotonic()
    formulas.close()
    assert time.monotonic() - begin < 20
    assert pid is not None
    qtbot.waitUntil(lambda: is_over(pid))


def test_formulas_that_nobody_has_any_more_end_their_process(stand_in: Callable[..., None], qtbot: QtBot) -> None:
    formulas = Formulas()
    formulas.is_known(latex("endless"))
    qtbot.waitUntil(lambda: formulas.typesetter.pid is not None)
    pid = formulas.typesetter.pid
    assert pid is not None
    formulas.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    qtbot.waitUntil(lambda: is_over(pid))


def test_one_formula_without_an_end_does_not_keep_the_others_away(stand_in: Callable[..., None], qtbot: QtBot) -> None:
    typesetter = Typesetter(process=Hasty())
    answers: dict[Any, Any] = {}
    typesetter.answered.connect(answers.__setitem__)
    jobs: list[TypesettingJob] = [latex("endless"), latex("a"), CodeText("b", "python"), latex("c")]
    for each in jobs:
        typesetter.ask(each)
    qtbot.waitUntil(lambda: len(answers) == 4)
    assert answers[jobs[0]] is None
    assert all(answers[each] is not None for each in jobs[1:])
    order = [each for each in answers if each != jobs[0]]
    assert order == [jobs[2], jobs[1], jobs[3]], "code goes first"
    typesetter.close()


def test_an_error_that_nobody_thought_of_is_told_and_the_next_job_is_done(
    qtbot: QtBot, thread_errors: list[BaseException | None]
) -> None:
    class Failing(DrawingProcess):
        def ask(self, request: dict[str, object]) -> Any:
            if request["latex"] == "a":
                raise BaseException("odd")
            return 1

    typesetter = Typesetter(process=Failing())
    answers: dict[Any, Any] = {}
    typesetter.answered.connect(answers.__setitem__)
    for each in "ab":
        typesetter.ask(latex(each))
    qtbot.waitUntil(lambda: len(answers) == 2)
    assert answers == {latex("a"): None, latex("b"): 1}
    assert len(thread_errors) == 1
    typesetter.close()


def test_the_process_gets_nothing_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert "secret" not in drawing_process._environment(1.0).values()


def test_a_packaged_program_starts_itself_as_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    arguments = drawing_process._command()
    assert arguments[0] == sys.executable
    monkeypatch.setattr(drawing_program, "main", lambda: 7)
    assert command.main(arguments[1:]) == 7


def test_it_is_told_the_home_folder_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows tells that folder in the environment alone, and the library of formulas asks for it."""
    monkeypatch.setenv("USERPROFILE", "somewhere")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    passed = own_program.environment()
    assert passed["USERPROFILE"] == "somewhere"
    assert "hf_secret" not in passed.values()
