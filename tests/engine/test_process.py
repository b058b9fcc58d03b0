"""The engine process as the application sees it: a real child, a real socket, and every way to end it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.protocol.messages import Cancel, Failed, Finished, Generate, Loaded, Round, Unload
from engine.protocol.options import GenerateOptions
from tests.engine.child import ENDLESS, PATIENCE_SECONDS, STORY, Child, is_running


def test_the_process_hears_commands_before_anything_heavy_is_read() -> None:
    heavy = "('numpy', 'torch', 'transformers')"
    code = f"import sys, engine.process; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_a_conversation_in_which_failures_are_events(lasting: Child) -> None:
    """From before the first load; how a busy engine ends when it is told is seen at the end of `lasting`."""
    assert_torch_is_read_while_nobody_has_asked_for_anything(lasting)
    if sys.platform != "win32":  # where no process can send another SIGINT
        lasting.process.send_signal(signal.SIGINT)  # Ctrl+C in a terminal is for the window
    lasting.connection.send(Generate(1, STORY, GenerateOptions()))
    assert lasting.until_the_end(1)[-1].message == "No model is loaded."
    events = lasting.load(2)
    assert len(events) > 2
    assert isinstance(events[-2], Loaded)
    assert events[-1] == Finished(2, "loaded")
    assert [type(event) for event in lasting.load(6)] == [Loaded, Finished], "what is loaded is not loaded again"
    assert_what_is_unloaded_can_be_loaded_again(lasting)
    failure = lasting.load(3, target="/no/such/folder")[-1]
    assert isinstance(failure, Failed)
    assert "/no/such/folder" in failure.message
    lasting.connection.send(Generate(4, (), GenerateOptions()))
    assert isinstance(lasting.until_the_end(4)[-1], Failed)
    lasting.connection.send(Generate(5, STORY, GenerateOptions(max_new_tokens=30)))
    events = lasting.until_the_end(5)
    assert {event.id for event in events} == {5}
    assert sum(isinstance(event, Finished | Failed) for event in events) == 1
    assert isinstance(events[-1], Finished)
    assert "".join(event.text for event in events if isinstance(event, Round | Finished))
    assert_passes_stand_back(lasting)
    assert_cancel_ends_the_running_answer_and_those_waiting(lasting)


def assert_what_is_unloaded_can_be_loaded_again(child: Child) -> None:
    for request in (20, 21):
        child.connection.send(Unload(request))
        assert child.until_the_end(request) == [Finished(request, "unloaded")], "also where nothing is loaded"
    child.connection.send(Generate(22, STORY, GenerateOptions()))
    assert child.until_the_end(22)[-1].message == "No model is loaded."
    assert child.load(23)[-1] == Finished(23, "loaded")


def assert_torch_is_read_while_nobody_has_asked_for_anything(child: Child) -> None:
    """Linux says in /proc what a process has mapped."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sys.platform == "linux" and "libtorch_cpu" not in Path(f"/proc/{child.process.pid}/maps").read_text(
        encoding="utf-8"
    ):
        assert time.monotonic() < deadline, "the engine waits for a load before it imports torch"
        time.sleep(0.05)


def assert_passes_stand_back(child: Child) -> None:
    """They stand back behind the window: a thread has a priority of its own on Linux."""
    if sys.platform == "linux":
        assert os.getpriority(os.PRIO_PROCESS, child.process.pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)


def assert_cancel_ends_the_running_answer_and_those_waiting(child: Child) -> None:
    child.start_endless(7)
    child.connection.send(Generate(8, STORY, ENDLESS))
    child.connection.send(Cancel(through=8))
    endings: dict[int, Finished] = {}
    while len(endings) < 2:  # what waits ends at once, so perhaps before what runs
        event = child.receive()
        if isinstance(event, Finished):
            endings[event.id] = event
    assert endings[7].reason == "cancelled"
    assert endings[7].statistics
    assert endings[7].statistics.new_tokens < ENDLESS.max_new_tokens
    assert endings[8] == Finished(8, "cancelled")
    child.connection.send(Generate(9, STORY, GenerateOptions(max_new_tokens=5)))
    assert child.until_the_end(9)[-1].reason == "length"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child together with its parent")
def test_a_parent_that_is_killed_takes_a_stopped_engine_with_it(tmp_path: Path) -> None:
    """Even an engine that cannot read its connection any more."""
    script = (
        "import pathlib, sys, time; from tests.engine.child import Child\n"
        "child = Child(pathlib.Path(sys.argv[1])); child.receive()\n"
        "print(child.process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        engine = int(parent.stdout.readline())
        os.kill(engine, signal.SIGSTOP)
        parent.kill()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_running(engine):
        assert time.monotonic() < deadline, "the engine outlived its parent"
        time.sleep(0.05)


def test_an_import_that_fails_is_told_with_every_request(tmp_path: Path) -> None:
    """Also with the second: a torch that could not be imported says something else when it is tried again."""
    broken = tmp_path / "torch"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise OSError('libcudart.so.13: cannot open shared object file')")
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    child = Child(tmp_path, PYTHONPATH=paths)
    try:
        child.receive()
        for request in (1, 2):
            ending = child.load(request)[-1]
            assert isinstance(ending, Failed)
            assert "libcudart.so.13" in ending.message
    finally:
        child.close()


def test_on_a_terminal_it_says_what_to_use_instead() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COPPICE_ENGINE_")}
    command = [sys.executable, "-m", "engine.process"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert result.stderr.startswith("error: ")
    assert "coppice-engine" in result.stderr
