"""Runs every test that proves more here than in the suite: `python -m tests.campaigns.proofs`; options go to pytest."""

import os
import sys
from pathlib import Path

import pytest

from tests.campaigns.extent import VARIABLE

ROOT = Path(__file__).parents[2]


def files() -> list[str]:
    """The test files whose extent can be chosen, and those that hypothesis writes examples for."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "tests.campaigns.extent" in text or "from hypothesis" in text:
            found.append(str(path.relative_to(ROOT)))
    return found


def main() -> int:
    """Run them in their whole extent; the exit code is pytest's."""
    os.chdir(ROOT)
    os.environ[VARIABLE] = "1"
    processes = ["--numprocesses", "logical", "--maxprocesses", "4", "--dist", "loadfile"]
    return int(pytest.main([*processes, *sys.argv[1:], *files()]))


if __name__ == "__main__":
    sys.exit(main())
