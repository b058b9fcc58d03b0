"""Installs the tiny runtime in a process of its own, to be killed: `python -m tests.app.installation.driver FOLDER`."""

import sys
from pathlib import Path

from tests.app.installation.conftest import install, make_dependencies
from tests.app.installation.packages import lock_of, tiny_wheels


def main() -> int:
    """The exit code is 0 when the runtime is there."""
    progress = install(make_dependencies(Path(sys.argv[1])), lock_of(tiny_wheels())).progress
    sys.stdout.write(f"{progress.stage.value} {progress.message}\n")
    return 0 if progress.stage.value == "done" else 1


if __name__ == "__main__":
    sys.exit(main())
