"""A window in front of the real engine that is killed; the rest is in tests/app/session."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pytestqt.qtbot import QtBot

from app.system.paths import ROOT
from tests.app.session.person import ENDLESS, STORY
from tests.campaigns.extent import for_the_proofs

PATIENCE_MS = 120_000  # torch is imported by a process of low priority, perhaps on a busy machine


@pytest.mark.skipif(sys.platform != "linux", reason="the engine watches its parent by other means there")
@pytest.mark.parametrize("busy", [False, True])
@for_the_proofs  # tests/engine/test_process.py kills the parent of a real engine, test_application.py a window
def test_a_window_that_is_killed_leaves_no_engine(tmp_path: Path, qtbot: QtBot, busy: bool) -> None:
    script = f"""
import sys
from PySide6.QtCore import QTimer
from app.shell.wiring import build_window
from app.main import begin_engine, build_application, build_parser
from app.system.paths import folders_below
from app.settings.store import GenerationSettings
from pathlib import Path
folders = folders_below(Path({str(tmp_path)!r}))
folders.create()
application = build_application()
window = build_window(application, folders, build_parser().parse_args([]), begin_engine(folders))
window.chat._settings.change(generation={ENDLESS!r})
def tell(*_):
    print("there", flush=True)
if {busy}:
    window.chat.ask({STORY!r})
    window.chat.round_arrived.connect(tell)
else:
    window.library.pair_loaded.connect(tell)
window.show()
application.exec()
"""
    application = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE)
    assert application.stdout is not None
    assert application.stdout.readline() == b"there\n"
    engines = psutil.Process(application.pid).children()
    assert len(engines) == 1
    application.kill()
    application.wait()
    application.stdout.close()
    _, alive = psutil.wait_procs(engines, timeout=30)
    assert alive == []
