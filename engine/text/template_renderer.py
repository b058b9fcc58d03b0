"""Chat templates rendered with limits: on time, on memory and on the length of what they write."""

import atexit
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from engine.errors import ModelError
from engine.protocol.sentences import Amount, say

SECONDS = 5.0
MEMORY_BYTES = 1 << 30
START_SECONDS = 60.0  # of a process that does nothing but import jinja2, on however busy a machine
LOOK_SECONDS = 0.05
# Templates write instructions and marks of their own; none repeats the messages eight times.
OWN_CHARACTERS, EACH_TURN, TIMES_SAID = 1 << 20, 1000, 8

PROGRAM = Path(__file__).with_name("template_process.py")
ANOTHER_MODEL = say("Choose another model.")


class TemplateRefusal(Exception):  # noqa: N818  # of a conversation: the template says so itself, or fails
    """A template refused the conversation, in these words of its own or of jinja2's."""


class TemplateRenderer:
    """Renders in a process of its own, which is started when it is first needed and again when it had to be ended.

    `render` may be called from any thread; one conversation is rendered after the other.
    """

    def __init__(self, seconds: float = SECONDS, memory_bytes: int = MEMORY_BYTES) -> None:
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def render(self, template: str, turns: list[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        """What the template makes of the turns and of `tools` among the variables, exactly as transformers renders it.

        Raises `TemplateRefusal` in the template's words, and `ModelError` where it exceeds a limit.
        """
        said = sum(len(turn["content"] or "") for turn in turns)
        said += sum(len(json.dumps(turn["tool_calls"])) for turn in turns if "tool_calls" in turn)
        said += len(json.dumps(variables["tools"])) if variables.get("tools") else 0
        request = {
            "template": template,
            "variables": {"tools": None, "documents": None, **variables, "messages": turns},
            "seconds": self._seconds,
            "characters": OWN_CHARACTERS + EACH_TURN * len(turns) + TIMES_SAID * said,
        }
        with self._turn:
            try:
                reply = self._ask(request)
            except BaseException:  # also Ctrl+C: a reply that nobody has read must not answer the next request
                self.close()
                raise
        if "refused" in reply:
            raise TemplateRefusal(reply["refused"])
        if "text" in reply:
            return str(reply["text"])
        if reply["exceeds"] == "seconds":
            message = say(
                "The model's chat template was stopped: it took longer than {seconds} seconds.",
                seconds=Amount(f"{self._seconds:g}"),
            )
        elif reply["exceeds"] == "memory":
            size = self._memory_bytes >> 20
            message = say("The model's chat template was stopped: it took more than {size} MiB of memory.", size=size)
        else:
            message = say(
                "The model's chat template was stopped: it wrote more than {count} characters.",
                count=request["characters"],
            )
        raise ModelError(message, ANOTHER_MODEL)

    def close(self) -> None:
        """End the process; the next render starts another one."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, str]:
        """The reply; a process that was ended from outside since the last one is replaced by another."""
        line = json.dumps(request).encode() + b"\n"
        for _ in range(2):
            child = self._started()
            begin = time.monotonic()
            reply, exceeded = _exchange(child, line, self._memory_bytes, self._seconds + START_SECONDS)
            if reply is not None:
                return reply
            self.close()
            if exceeded:
                return {"exceeds": exceeded}
            if time.monotonic() - begin >= self._seconds:
                return {"exceeds": "seconds"}
        words = say("The process that renders the model's chat template ended with code {code}.", code=child.returncode)
        raise ModelError(words, ANOTHER_MODEL)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        # -P: the folder of the program holds modules of ours, which must not stand in for others.
        child = subprocess.Popen(
            [sys.executable, "-P", str(PROGRAM), str(self._memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        self._child = child
        reply, _ = _exchange(child, b"", self._memory_bytes, START_SECONDS)
        if reply is None:
            self.close()
            raise ModelError(
                say(
                    "The process that renders the model's chat template cannot be started: it ended with code {code}.",
                    code=child.returncode,
                ),
                say("Repair or install the engine again."),
            )
        return child


def _exchange(
    child: "subprocess.Popen[bytes]", line: bytes, memory_bytes: int, seconds: float
) -> tuple[dict[str, str] | None, str]:
    """Write a line and read one; None with the limit that was exceeded, if it was one, where the process ended."""
    assert child.stdin
    assert child.stdout
    watch = _Watch(child, memory_bytes, seconds)
    try:
        child.stdin.write(line)
        child.stdin.flush()
        said = child.stdout.readline()
    except OSError:  # it has ended
        return None, watch.end()
    exceeded = watch.end()
    return (json.loads(said), "") if said.endswith(b"\n") else (None, exceeded)


class _Watch:
    """Ends a process that takes more memory or time than it may, where nothing inside it does.

    The time is a backstop: the process has a deadline of its own, which begins when it is ready for a conversation.
    """

    def __init__(self, child: "subprocess.Popen[bytes]", memory_bytes: int, seconds: float) -> None:
        self._child, self._memory_bytes = child, memory_bytes
        self._until = time.monotonic() + seconds
        self._over = threading.Event()
        self._exceeded = ""
        self._thread = threading.Thread(target=self._run, name="template-watch", daemon=True)
        self._thread.start()

    def end(self) -> str:
        """Watch no longer; returns which limit was exceeded, or nothing."""
        self._over.set()
        self._thread.join()
        return self._exceeded

    def _run(self) -> None:
        try:
            process = psutil.Process(self._child.pid)
            while not self._over.wait(LOOK_SECONDS):
                if _rss_bytes(process) > self._memory_bytes:
                    self._exceeded = "memory"
                elif time.monotonic() > self._until:
                    self._exceeded = "seconds"
                if self._exceeded:
                    self._child.kill()
                    return
        except psutil.NoSuchProcess:
            return
        except BaseException:
            self._child.kill()  # it must not run unwatched
            raise


def _rss_bytes(process: psutil.Process) -> int:
    """Of the Python that renders: on Windows that of a virtual environment starts another one, and waits for it."""
    children = process.children() if sys.platform == "win32" else []
    return sum(each.memory_info().rss for each in (process, *children))


@cache
def shared_renderer() -> TemplateRenderer:
    """The renderer of this process; its child process ends with it."""
    renderer = TemplateRenderer()
    atexit.register(renderer.close)
    return renderer
