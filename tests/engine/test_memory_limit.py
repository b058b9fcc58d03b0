"""Programs that read what strangers wrote are refused more memory than they may take."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.memory_limit import limit_memory_of

ROOT = Path(__file__).parents[2]
TAKES_MUCH = """
from engine.memory_limit import limit_own_memory
limit_own_memory(256 << 20)
small = bytearray(16 << 20)
try:
    bytearray(512 << 20)
except MemoryError:
    print("refused")
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS bounds no memory of a process")
def test_a_program_that_limits_itself_is_refused_more() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TAKES_MUCH], cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=60
    )
    assert done.stdout.strip() == "refused", done.stderr


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere a program limits itself")
def test_a_program_is_limited_from_outside() -> None:
    takes = "import sys; sys.stdin.read()\ntry:\n    bytearray(512 << 20)\nexcept MemoryError:\n    print('refused')"
    with subprocess.Popen(
        [sys.executable, "-c", takes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as child:
        limit_memory_of(child.pid, 256 << 20)
        said, _ = child.communicate("", timeout=60)
    assert said.strip() == "refused"
