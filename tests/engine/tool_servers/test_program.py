"""`python -m engine.tool_servers` with a real server, from the first order to its end."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.protocol.sentences import Sentence
from engine.protocol.tool_servers import (
    Answered,
    Broken,
    Call,
    Connect,
    Disconnect,
    Drop,
    Listed,
    ProgramServer,
    Progressed,
    Unable,
    from_line,
    to_line,
)
from tests.engine.tool_servers.asked import STUB, Program, program, rough
from tests.engine.tool_servers.test_connection import is_gone

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def asked() -> Iterator[Program]:
    """The program, connected to the stub: both take a second of a processor to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", "hf_secret")
        with program() as made:
            made.say(Connect("stub", ProgramServer(STUB.command, STUB.arguments, {"STUB_KEY": "1"})))
            made.hear(Listed)
            yield made


def called(asked: Program, tool: str, **arguments: object) -> Answered:
    """What a call of the stub comes to."""
    number = len(asked.heard) + 1000
    asked.say(Call(number, "stub", tool, json.dumps(arguments)))
    answered = asked.hear(Answered)
    assert answered.number == number
    return answered


def test_a_tool_answers(asked: Program) -> None:
    answered = called(asked, "add", a=1, b=2)
    assert (answered.parts, answered.is_error) == (("3",), False)
    assert 0 < answered.seconds < 60


def test_an_error_of_a_tool_is_one(asked: Program) -> None:
    assert called(asked, "fail").is_error
    assert called(asked, "no-such-tool").is_error
    assert called(asked, "add", a="one").is_error


def test_what_is_no_text_is_told_in_sentences(asked: Program) -> None:
    parts = called(asked, "show").parts
    assert parts == (
        "Look:", "[picture, image/png, 12 kB]", "[sound, audio/wav, 1 B]", "[link: file:///page]", "inside",
        "[file, application/octet-stream, 3 B]",
    )  # fmt: skip
    assert [isinstance(each, Sentence) for each in parts] == [False, True, True, True, False, True]


def test_structured_content_stands_where_there_is_no_text(asked: Program) -> None:
    assert called(asked, "structured").parts == ('{"found": ["ä", 2]}',)


def test_a_long_result_is_cut(asked: Program) -> None:
    text, words = called(asked, "speak", characters=1_000_001).parts
    assert len(text) == 1_000_000
    assert words == "[cut: the first 1,000,000 of 1,000,001 characters]"


def test_a_server_has_no_variables_but_the_usual_ones_and_those_entered(asked: Program) -> None:
    names = called(asked, "variables").parts[0].split()
    assert "STUB_KEY" in names
    assert set(names) - {"STUB_KEY", "LC_CTYPE"} <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}


def test_progress_is_told_and_a_stop_reaches_the_server(asked: Program, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    asked.say(Call(1, "stub", "wait", json.dumps({"seconds": 600, "mark": str(mark)})))
    assert asked.hear(Progressed) == Progressed(1, 0.0, 10.0, "step 0")
    asked.say(Drop(1))
    answered = asked.hear(Answered)
    assert (answered.parts, answered.is_error) == (("The call was stopped.",), True)
    called(asked, "add", a=1, b=1)  # one more turn of the server
    assert mark.read_text() == "step\nstopped\n"


def test_what_is_no_object_is_refused_before_it_is_sent(asked: Program) -> None:
    asked.say(Call(1, "stub", "add", "[1, 2]"))
    assert asked.hear(Answered).parts == ("The arguments are no JSON object.",)
    asked.say(Call(2, "nobody", "add", "{}"))
    assert asked.hear(Answered).parts == ("The server is not connected.",)


def test_tools_that_change_are_told(asked: Program) -> None:
    assert called(asked, "grow").parts == ("grown",)
    assert "grown" in [each.name for each in asked.hear(Listed).tools]


def test_servers_are_connected_side_by_side_and_anew(asked: Program) -> None:
    asked.say(Connect("rough", rough("greets")))
    assert asked.hear(Listed).server == "rough"
    asked.say(Connect("rough", rough("dies")))
    broken = asked.hear(Broken)
    assert (broken.server, broken.reason) == ("rough", "The program ended with exit code 3.")
    asked.say(Disconnect("rough"))
    assert called(asked, "add", a=2, b=2).parts == ("4",)


def test_a_server_that_ends_itself_is_told_last(asked: Program) -> None:
    assert called(asked, "die").parts == ("The connection to the server ended during the call.",)
    broken = asked.hear(Broken)
    assert broken.reason == "The program ended with exit code 7."
    assert broken.lines[-1] == "killed by a tool"


WINDOW = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "engine.tool_servers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdin.write(sys.stdin.buffer.readline())
child.stdin.flush()
sys.stdout.buffer.write(child.stdout.readline() + str(child.pid).encode() + b"\\n")
sys.stdout.flush()
time.sleep(600)
"""


def test_servers_end_when_the_window_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    words = [sys.executable, "-c", WINDOW]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as window:
        assert window.stdin
        assert window.stdout
        window.stdin.write(to_line(Connect("rough", rough("hangs", str(file)))))
        window.stdin.flush()
        assert isinstance(from_line(window.stdout.readline()), Listed)
        program_pid = int(window.stdout.readline())
        window.kill()
    assert is_gone(int(file.read_text()))
    assert is_gone(program_pid)


def test_a_python_without_the_package_says_so(tmp_path: Path) -> None:
    (tmp_path / "mcp_types.py").write_text("raise ModuleNotFoundError('gone', name='mcp_types')")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "engine.tool_servers"], env=environment, input=b"", capture_output=True, check=True
    )
    told = from_line(done.stdout)
    assert isinstance(told, Unable)
    assert told.reason == "The installed engine is too old for tools of servers: it has no package 'mcp_types'."
