"""How many files the engine may have open at once: a model of many layers has more than systems allow by themselves."""

import subprocess
import sys

import pytest

from engine.files import MOST_OPEN

resource = pytest.importorskip("resource", reason="Windows has no such limit")
LITTLE = 100

TERMINAL = 'main(["tree-shape", "--acceptance", "0.5", "--budget", "4", "--max-depth", "2"])'
STARTED = {
    "terminal": f"from engine.__main__ import main; assert {TERMINAL} == 0",
    "window": "from engine.process import _configure_process; _configure_process()",
}


@pytest.mark.parametrize(
    ("started", "most"), [("terminal", 300), ("window", LITTLE), ("window", MOST_OPEN), ("window", 2 * MOST_OPEN)]
)
def test_the_engine_may_open_as_many_files_as_the_system_lets_it(started: str, most: int) -> None:
    if 0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < most:
        pytest.skip("the system allows fewer")
    limit = "resource.RLIMIT_NOFILE"
    code = f"import resource; resource.setrlimit({limit}, ({LITTLE}, {most})); {STARTED[started]}\n"
    code += f"print(*resource.getrlimit({limit}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1].split() == [str(min(most, MOST_OPEN)), str(most)]
