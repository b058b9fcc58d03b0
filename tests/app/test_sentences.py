"""Sentences from engine, hub, downloads and installation: said as templates with values, shown in the language."""

import ast
import errno
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.downloads.disk import out_of_space
from app.engine.link import EngineLink
from app.engine.program import EngineProgram
from app.engine.state import EngineState, Phase
from app.hub.failures import HubError, failure, unusable
from app.i18n.sentences import error_text, translated
from app.installation.runtime.progress import names_text
from app.system.json_text import parse_object
from app.ui.notices import Notice, NoticeBar
from engine.errors import NO_PACKAGE, CoppiceError, InputError
from engine.protocol.options import LoadOptions, SamplingOptions
from engine.protocol.sentences import Amount, joined, opening, reason_of, say
from engine.text.tools.tool_template import BARE_SYSTEM
from engine.text.tools.turns import INSTRUCTIONS
from engine.trial import QUESTIONS
from tests.app.conftest import OpenWindow
from tests.app.sources import Source, sources

CRAFTED = ("{x}", "{0}", "{name.__class__}", "%1", "%n", "<b>bold</b>", "{", "layers", "Permission denied")
TREE = say(
    "A tree does not pay here: the best, {size}, would give {cost}; so one token per pass.",
    size=say(
        "{nodes}, {levels} deep ({method})", nodes=say("{count} nodes", count=3), levels=say("1 level"), method="x"
    ),
    cost=say("{tokens} tokens in {times} times the time of one", tokens=Amount("1.5"), times=Amount("2.1")),
)


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("", ""),
        ("Measuring this machine", "Measuring this machine"),
        (say("Measuring this machine"), "Vermisst diesen Rechner"),
        (
            TREE,
            "Ein Baum lohnt sich hier nicht: Der beste, 3 Knoten in 1 Ebene (x), gäbe 1,5 Token in der 2,1-fachen Zeit "
            "von einem; also ein Token je Durchlauf.",
        ),
        (
            joined((say("Memory ran out with bigger trees before."), "New {x}.", say("No draft model is loaded."))),
            "Für größere Bäume reichte der Speicher schon einmal nicht. New {x}. Es ist kein Entwurfsmodell geladen.",
        ),
        (
            say(
                "{kept} of {count} layers stay on the GPU; {streams}.",
                kept=2,
                count=8,
                streams=joined(
                    [say("{count} stream from {place}", count=3, place=each) for each in ("RAM", "SSD")], ", "
                ),
            ),
            "2 von 8 Schichten bleiben auf der Grafikkarte; 3 werden geladen (RAM), 3 werden geladen (SSD).",
        ),
        (
            say(
                "{file} cannot be read: {reason}.",
                file="/m/1.5",
                reason=reason_of(OSError(errno.EACCES, "Permission denied")),
            ),
            "/m/1.5 kann nicht gelesen werden: keine Berechtigung.",
        ),
        (
            say("{file} has {size} bytes and not {wanted}.", file="1.5", size=1024, wanted="2.13.0"),
            "1.5 hat 1024 Bytes und nicht 2.13.0.",
        ),
        (
            say(
                "{reason}, {count} times in a row.",
                reason=opening(say("{server} is overloaded (429)", server=say("the hub"))),
                count=5,
            ),
            "Der Hub ist überlastet (429), 5-mal hintereinander.",
        ),
    ],
)
def test_a_sentence_is_translated_with_what_is_in_it(said: str, shown: str) -> None:
    assert translated(said) == shown


@pytest.mark.usefixtures("german")
def test_what_the_application_raises_is_shown_in_german() -> None:
    error = failure(404, {}, "https://hub", "org/m", from_hub=True)
    assert isinstance(error, HubError)
    assert translated(error.message) == "Der Hub hat kein Modell org/m, das Sie sehen dürfen."
    busy = failure(429, {}, "https://hub", "org/m", from_hub=True)
    assert translated(busy.message) == "Der Modell-Hub ist überlastet: der Hub ist überlastet (429)."
    root = Path("/").absolute()
    full = out_of_space(root / "m" / "2.13.0", 7_400_000_000)
    assert translated(full.message) == f"Auf der Platte von {root} fehlen 7,4 GB."
    with pytest.raises(ValueError, match="no JSON object") as raised:
        parse_object(b"[]")
    assert "kein JSON-Objekt" in error_text(
        unusable("org/m", say("its {file} cannot be read: {reason}", file="x", reason=raised.value))
    )
    assert translated(names_text(["a", "b", "c", "d"])) == "a, b, c und 1 weitere"


@pytest.mark.usefixtures("german")
def test_an_option_out_of_range_is_told_in_german() -> None:
    with pytest.raises(InputError, match=r"Temperature 100.5 is out of range. Give a number from 0 to 100.") as raised:
        SamplingOptions(temperature=100.5).check()
    assert error_text(raised.value).startswith("Temperatur 100,5: nicht im erlaubten Bereich.")


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_value_is_shown_as_it_is(name: str) -> None:
    within = say("Trying again: {reason}", reason=joined((say("Loading {name}", name=name), name)))
    assert translated(within) == f"Neuer Versuch: Lädt {name} {name}"
    assert str(within) == f"Trying again: Loading {name} {name}"


@pytest.mark.usefixtures("german")
def test_state_and_notice_show_german(qtbot: QtBot) -> None:
    assert EngineState(Phase.LOADING, say("Reading {name}", name="big"), 0, 1).words == "Liest big"
    bar = NoticeBar(Notice("key", say("No model is loaded."), say("Choose a model first.")))
    assert bar.notice.text == "Es ist kein Modell geladen. Wählen Sie erst ein Modell."
    bar.deleteLater()


@pytest.mark.usefixtures("german")
def test_a_failure_of_another_process_is_shown_in_german(
    open_window: OpenWindow, fake_program: EngineProgram, qtbot: QtBot
) -> None:
    window = open_window(EngineLink(fake_program), LoadOptions("missing"))
    qtbot.waitUntil(lambda: bool(window.notices.notices))
    assert window.notices.notices[0].message == "Es gibt keinen Modellordner 'missing'."


# ---- by syntax ------------------------------------------------------------------------------------------------------

ON_A_TERMINAL = ("engine/cli/", "app/downloads/command.py", "app/installation/command.py")
EVENTS = {"Passing", "Failed", "Loading", "Appraised", "Notice"}  # what else carries sentences
MARKS = {"say", "tr", "mark"}


@cache
def _files() -> tuple[Source, ...]:
    """Every file that a window may show something of."""
    every = (*sources("app"), *sources("engine"))
    return tuple(each for each in every if not each.place.startswith(ON_A_TERMINAL))


def _carriers() -> set[str]:
    """Names of the classes of errors and of the functions that make one, and of events with sentences."""
    names, makers = {CoppiceError.__name__, *EVENTS}, set[str]()
    definitions = [node for each in _files() for node in each.nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    while True:
        found = {
            node.name
            for node in definitions
            if isinstance(node, ast.ClassDef)
            and any(isinstance(base, ast.Name) and base.id in names for base in node.bases)
        }
        if found <= names:
            break
        names |= found
    for node in definitions:
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            returned = {each.id for each in ast.walk(node.returns) if isinstance(each, ast.Name)}
            makers |= {node.name} if returned & names else set()
    return names | makers


def _name(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


@cache
def _marked(source: Source) -> set[ast.AST]:
    calls = (each for each in source.nodes if isinstance(each, ast.Call) and _name(each) in MARKS)
    return {node for call in calls for node in ast.walk(call)}


def _plain_words(nodes: Iterable[ast.AST], marked: set[ast.AST]) -> Iterator[str]:
    """Texts of several words among these that are not said, and texts that are put together."""
    for each in set(nodes) - marked:
        if isinstance(each, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in each.values)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str) and " " in each.value.strip():
            yield each.value


def test_every_error_and_event_is_made_of_sentences() -> None:
    carriers, found = _carriers(), []
    assert {"ModelError", "HubError", "unusable", "out_of_memory_of", "UnpackError"} <= carriers
    for source in _files():
        marked = _marked(source)
        for call in (each for each in source.nodes if isinstance(each, ast.Call) and _name(each) in carriers):
            key = 1 if _name(call) == "Notice" else 0  # its first argument is not shown
            given = [*call.args[key:], *(each.value for each in call.keywords)]
            found += [
                f"{source.place}:{call.lineno}: {words}"
                for each in given
                for words in _plain_words(ast.walk(each), marked)
            ]
    assert found == []


NOT_SHOWN = {
    "error: engine.process is started by the application. Use `coppice-engine` on a terminal.",
    NO_PACKAGE,  # before anything could be shown
    BARE_SYSTEM,  # models are told in English
    INSTRUCTIONS,
    *QUESTIONS,
}


def test_no_sentence_is_kept_as_a_plain_text() -> None:
    """Also those that stand in a variable or a table first, in the rooms that have no window."""
    found = []
    for source in _files():
        if source.place.startswith(
            ("engine/", "app/hub/", "app/downloads/", "app/installation/", "app/system/hostile_json")
        ):
            silent = {
                part for node in source.nodes if isinstance(node, ast.Expr | ast.Assert) for part in _silent(node)
            }
            texts = _plain_words(source.nodes, _marked(source) | silent)
            found += [
                f"{source.place}: {text}"
                for text in texts
                if " " in text and text.endswith((".", "?")) and text not in NOT_SHOWN
            ]
    assert found == []


def _silent(node: ast.Expr | ast.Assert) -> Iterator[ast.AST]:
    """Docstrings, messages of assertions, and what is logged."""
    is_log = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and "_log." in ast.unparse(node.value.func)
    if isinstance(node, ast.Assert) or is_log or isinstance(node.value, ast.Constant):
        yield from ast.walk(node)
