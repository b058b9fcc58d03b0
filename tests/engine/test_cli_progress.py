"""How a load is told on stderr: one line that is rewritten on a terminal, few lines elsewhere."""

import io
import os
import shutil
import sys

import pytest

from engine.cli.progress import LoadingSaid, ReadingSaid, say, tell
from engine.cli.serving_log import ServingLog
from engine.protocol.messages import Loading, Reading

STAGES = [Loading(1, "Reading", 0, 1), *(Loading(1, "Loading big", done, 200) for done in range(201))]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(written: str, columns: int) -> list[str]:
    """The lines as a terminal has them at the end."""
    lines = []
    for line in written.split("\n"):
        cells = ""
        for part in line.split("\r"):
            assert len(part) < columns, "what wraps cannot be rewritten"
            cells = part + cells[len(part) :]
        lines.append(cells.rstrip())
    return lines


def test_a_terminal_has_one_line_for_each_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((24, 24)))
    log = ServingLog()
    for event in STAGES:
        log.tell_load(event)
    log.say("A request")
    log.end()
    assert shown(terminal.getvalue(), 24) == ["Reading", "Loading big: 200 of 200", "A request", ""]


HOSTILE = "a\x1b]52;c;Y3VybA==\x07\tb\x9b2J\x7f\r\nü🌳"
HARMLESS = "a␛]52;c;Y3VybA==␇\tb\ufffd2J␡\nü🌳"


def test_a_text_commands_a_terminal_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model could put a command into the clipboard, or write over what stands above."""
    for name, write in (("stdout", tell), ("stderr", say), ("stderr", lambda text: ServingLog().say(text))):
        monkeypatch.setattr(sys, name, terminal := Terminal())
        write(HOSTILE)
        assert terminal.getvalue().removesuffix("\n") == HARMLESS
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    LoadingSaid().hear(Loading(1, HOSTILE, 0, 1))
    assert terminal.getvalue().removeprefix("\r") == HARMLESS


def test_another_program_gets_a_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    tell(HOSTILE)
    assert capsys.readouterr().out == HOSTILE


def test_elsewhere_there_is_a_line_for_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    said = LoadingSaid()
    for event in STAGES:
        said.hear(event)
    said.end()
    tenths = [f"Loading big: {done} of 200" for done in range(0, 201, 20)]
    assert capsys.readouterr().err.splitlines() == ["Reading", *tenths]


def test_pictures_and_tenths_of_a_prompt_have_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    said = ReadingSaid()
    for event in (*[Reading(1, 0.0, 1.0, 1, 2)] * 3, Reading(1, 0.0, 2.0, 2, 2), *[Reading(1, 0.42, 3.0)] * 2):
        said.hear(event)
    lines = ["Looking at picture 1 of 2", "Looking at picture 2 of 2", "Reading the prompt: 40 %"]
    assert capsys.readouterr().err.splitlines() == lines
