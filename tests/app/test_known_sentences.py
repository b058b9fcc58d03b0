"""Sentences that come without a translation: recognised, put together anew, and still those that are written."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from app.engine.state import EngineState, Phase
from app.hub.failures import RefusalError
from app.hub.responses import failure
from app.i18n.engine_sentences import WRITTEN
from app.i18n.failure_sentences import FAILURE_SENTENCES
from app.i18n.known_sentences import SENTENCES, translated
from app.i18n.model_sentences import WRITTEN_OF_MODELS
from app.i18n.translation import tr
from app.system.paths import ROOT

NOTE = (
    "A tree does not pay here: the best, 3 nodes, 1 level deep (specexec), would give 1.5 tokens in 2.1 times the time"
)
NOTE += " of one; so one token per pass."


WITHOUT_A_WINDOW = ["app/downloads", "app/runtime", "app/library/hub", "app/lifecycle", "app/system/hostile_json.py"]
ON_A_TERMINAL = (
    "engine/cli/",
    "engine/speculation/trees/tree_program.py",
    "engine/speculation/trees/tree_program.py",
)
# What these are put together to is known, or they are for those who start the engine by hand.
PIECES = {"'{}' {} {}{}.", "Give {}.", "{} Sequoia learns it while it writes.", "{}{} promise {}.", "{} Trees {}."}
BY_HAND = {"error: engine.process is started by the application.", "Use `coppice-engine` on a terminal."}


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("", ""),
        ("A sentence that nobody knows. 100% of {it}", "A sentence that nobody knows. 100% of {it}"),
        ("Measuring this machine", "Vermisst diesen Rechner"),
        ("Preparing big in nf4, 20 s left", "Bereitet big in nf4 vor, noch 20 s"),
        ("Loading {odd} name", "Lädt {odd} name"),
        (
            NOTE,
            "Ein Baum lohnt sich hier nicht: Der beste, 3 Knoten in 1 Ebene (specexec), gäbe 1,5 Token in der "
            "2,1-fachen Zeit von einem; also ein Token je Durchlauf.",
        ),
        (
            "Memory ran out with bigger trees before. Something new. Trees have at most 8 nodes.",
            "Für größere Bäume reichte der Speicher schon einmal nicht. Something new. Bäume haben höchstens 8 Knoten.",
        ),
        (
            "Trying again: 2 of 8 layers stay on the GPU; 4 stream from RAM, 2 stream from SSD.",
            "Neuer Versuch: 2 von 8 Schichten bleiben auf der Grafikkarte; 4 werden geladen (RAM), 2 werden geladen "
            "(SSD).",
        ),
        (
            "Memory ran out during 'Loading big', step 3 of 8: 2.1 GiB of GPU memory were asked for; 1.0 GiB of GPU "
            "memory and 3.0 GiB of RAM were free.",
            "Der Speicher reichte nicht („Lädt big“, Schritt 3 von 8): verlangt: 2,1 GiB Grafikspeicher; frei: 1,0 GiB "
            "Grafikspeicher und 3,0 GiB RAM.",
        ),
        (
            "org/m is only for those who have accepted its licence, and you are not logged in.",
            "org/m ist nur für jene, die seine Lizenz angenommen haben, und Sie sind nicht angemeldet.",
        ),
        (
            "'big' cannot hold a token tree: it has linear attention layers.",
            "„big“ kann keinen Token-Baum halten: es hat Schichten der Art linear attention.",
        ),
        (
            "/m/a.safetensors ended 12 bytes early while its weights were read. Was it changed or moved? Download or "
            "prepare the model again.",
            "/m/a.safetensors endete 12 Bytes zu früh, während ihre Gewichte gelesen wurden. Wurde sie geändert oder "
            "verschoben? Laden Sie das Modell noch einmal herunter, oder bereiten Sie es noch einmal vor.",
        ),
        (
            "/m/config.json cannot be read: Permission denied.",
            "/m/config.json kann nicht gelesen werden: keine Berechtigung.",
        ),
        ("7.4 GB more are needed on the disk of /m/2.13.0.", "Auf der Platte von /m/2.13.0 fehlen 7,4 GB."),
        ("Temperature 2.5 is out of range.", "Temperatur 2,5: nicht im erlaubten Bereich."),
        ("/m/1.5 has 1,024 bytes and not 2.13.0.", "/m/1.5 hat 1.024 Bytes und nicht 2.13.0."),
        (
            "The hub is overloaded (429), 5 times in a row. Something new.",
            "Der Hub ist überlastet (429), 5-mal hintereinander. Something new.",
        ),
    ],
)
def test_what_is_known_is_translated_and_the_rest_stays(said: str, shown: str) -> None:
    assert translated(said) == shown


@pytest.mark.usefixtures("german")
def test_a_stage_and_a_refusal_are_shown_in_german() -> None:
    assert EngineState(Phase.LOADING, "Reading big", 0, 1).words == "Liest big"
    error = failure(404, {}, "https://hub", "org/m", from_hub=True)
    assert isinstance(error, RefusalError)
    assert translated(error.message) == "Der Hub hat kein Modell org/m, das Sie sehen dürfen."


@pytest.mark.parametrize("said", ["Loading big", NOTE, "The hub is overloaded (429), 5 times in a row.", "x" * 5000])
def test_english_stays_as_it_was_said(said: str) -> None:
    assert translated(said) == said


def _written(folder: Path) -> Iterator[str]:
    """Every text of a file or below a folder, `{}` for what is filled in."""
    for file in [folder] if folder.is_file() else folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize(
    ("sentences", "folders"),
    [(WRITTEN + WRITTEN_OF_MODELS, ["engine"]), (FAILURE_SENTENCES, WITHOUT_A_WINDOW)],
)
def test_every_sentence_is_still_written_somewhere(sentences: tuple[str, ...], folders: list[str]) -> None:
    there = "\n".join(words for folder in folders for words in _written(ROOT / folder))
    assert [each for each in sentences if re.sub(r"\{\w+\}", "{}", each).rstrip(".") not in there] == []


def _said(file: Path) -> Iterator[str]:
    """Every text of a file that is no docstring and not put through `tr` or `mark` where it stands."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    elsewhere = {each.value for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    elsewhere |= {part for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in each.values}
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in ("tr", "mark"):
            elsewhere |= set(each.args)
    for each in set(ast.walk(tree)) - elsewhere:
        if isinstance(each, ast.JoinedStr):
            parts = each.values
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize("folder", ["engine", *WITHOUT_A_WINDOW])
def test_every_sentence_that_can_reach_the_window_is_known(folder: str) -> None:
    """A new one stands in English in a German window as long as it is in none of the lists."""
    known = {re.sub(r"\{\w+\}", "{}", each) for each in SENTENCES}
    files = [
        each for each in (ROOT / folder).rglob("*.py") if not str(each.relative_to(ROOT)).startswith(ON_A_TERMINAL)
    ]
    texts = {text for file in files for text in _said(file) if text.endswith(".") and " " in text}
    sentences = {part for text in texts for part in re.split("(?<=[.?]) ", text)} - PIECES - BY_HAND
    unknown = sentences - known
    assert sorted(each for each in unknown if translated(each.replace("{}", "x")) == each.replace("{}", "x")) == []


@pytest.mark.usefixtures("german")
def test_no_sentence_is_taken_for_another() -> None:
    values = dict.fromkeys(("count", "done", "kept", "rows", "seconds", "status", "streamed", "times", "tokens"), "3")
    values |= dict.fromkeys(("gib", "gpu", "ram"), "3 GiB")
    for template in SENTENCES:
        names = {name: values.get(name, "xyz") for _, name, _, _ in Formatter().parse(template) if name}
        assert translated(template.format(**names)) == tr(template).format(**names)
