"""Runs before all else in the packaged program: Ctrl+C while its window is still being loaded ends it without a trace.

Later the window hears of it (app/shell/application.py). What works in a terminal goes on hearing of it by itself.
"""

import signal
import sys

if sys.argv[1:2] not in (["download"], ["runtime"]):
    signal.signal(signal.SIGINT, signal.SIG_DFL)
