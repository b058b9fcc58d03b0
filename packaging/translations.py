"""Collects the words of the application for its translations, and compiles them.

`python packaging/translations.py` brings resources/translations/coppice_LANGUAGE.ts up to date with what stands in
`tr("...")`, `mark("...")` and `say("...")` in app/ and engine/ (without engine/cli, which speaks English), and with
what is said of suggested pairs in resources/suggestions.json, and makes the .qm files that are shipped. What is not
used any more goes.
"""

import ast
import json
import subprocess
import sys
import xml.etree.ElementTree as Xml
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "resources" / "translations"
SUGGESTIONS = "resources/suggestions.json"
LANGUAGES = ("de", "en")
CONTEXT = "Coppice"
_MARKS = ("tr", "mark", "say")
_ON_A_TERMINAL = "engine/cli/"
_HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n'


@dataclass(frozen=True, slots=True)
class Words:
    """A text that is shown, and whether it counts something."""

    source: str
    is_plural: bool = False


def collect(root: Path) -> dict[Words, str]:
    """Every text of app/ and engine/, sorted, with its file. Raises `ValueError` for one that is put together."""
    found: dict[Words, str] = {}
    for file in (file for room in ("app", "engine") for file in sorted((root / room).rglob("*.py"))):
        place = file.relative_to(root).as_posix()
        if not place.startswith(_ON_A_TERMINAL):
            for words in _words_in(ast.parse(file.read_text(encoding="utf-8")), file):
                found.setdefault(words, place)
    for words in _words_of_suggestions(root / SUGGESTIONS):
        found.setdefault(words, SUGGESTIONS)
    return dict(sorted(found.items(), key=lambda each: (each[1], each[0].source)))


def _words_of_suggestions(file: Path) -> Iterator[Words]:
    if file.exists():
        yield from (Words(each["about"]) for each in json.loads(file.read_text(encoding="utf-8"))["pairs"])


def _words_in(tree: ast.AST, file: Path) -> Iterator[Words]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MARKS and node.args:
            text = node.args[0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield Words(text.value, _counts(node))
            elif any(isinstance(each, ast.JoinedStr | ast.Constant) for each in ast.walk(text)):
                raise ValueError(f"{file}:{node.lineno}: write the words as they are, with {{names}} for what varies")


def _counts(call: ast.Call) -> bool:
    """Whether a `tr` chooses between singular and plural; a value of a `say` may be called `n` too."""
    is_tr = isinstance(call.func, ast.Name) and call.func.id == "tr"
    return is_tr and (len(call.args) > 1 or any(each.arg == "n" for each in call.keywords))


def read(file: Path) -> dict[Words, tuple[str, ...]]:
    """The translations of a .ts file; one for every plural form. Those that are missing are empty."""
    if not file.exists():
        return {}
    messages = Xml.parse(file).getroot().iter("message")  # noqa: S314  # our own file
    return {_words_of(each): _translation_of(each) for each in messages}


def write(file: Path, language: str, found: dict[Words, str], known: dict[Words, tuple[str, ...]]) -> None:
    """Write a .ts file as Qt's own tools do; English needs nothing but its plurals."""
    root = Xml.Element("TS", version="2.1", language=language, sourcelanguage="en")
    context = Xml.SubElement(root, "context")
    Xml.SubElement(context, "name").text = CONTEXT
    for words, place in found.items():
        if language == "en" and not words.is_plural:
            continue
        message = (
            Xml.SubElement(context, "message", numerus="yes") if words.is_plural else Xml.SubElement(context, "message")
        )
        Xml.SubElement(message, "location", filename=f"../../{place}")
        Xml.SubElement(message, "source").text = words.source
        _add_translation(message, words, known.get(words, ()))
    Xml.indent(root, "    ")
    file.write_text(_HEAD + Xml.tostring(root, encoding="unicode") + "\n", encoding="utf-8")


def _add_translation(message: Xml.Element, words: Words, known: tuple[str, ...]) -> None:
    is_done = bool(known) and all(known)
    translation = Xml.SubElement(message, "translation", {} if is_done else {"type": "unfinished"})
    if not words.is_plural:
        translation.text = known[0] if known else ""
        return
    for form in known or ("", ""):
        Xml.SubElement(translation, "numerusform").text = form


def _words_of(message: Xml.Element) -> Words:
    return Words(message.findtext("source") or "", message.get("numerus") == "yes")


def _translation_of(message: Xml.Element) -> tuple[str, ...]:
    forms = message.findall("translation/numerusform")
    return tuple(each.text or "" for each in forms) if forms else (message.findtext("translation") or "",)


def main() -> int:
    """Bring everything up to date; returns 1 where something is not translated yet, and names it."""
    found = collect(ROOT)
    missing = []
    for language in LANGUAGES:
        file = FOLDER / f"coppice_{language}.ts"
        known = read(file)
        write(file, language, found, known)
        missing += [f"{language}: {words.source}" for words, forms in read(file).items() if not all(forms)]
        compiler = Path(sys.executable).with_name("pyside6-lrelease")
        made = file.with_suffix(".new")
        subprocess.run([compiler, "-silent", file, "-qm", made], check=True)
        made.replace(file.with_suffix(".qm"))  # a running window reads the old one: written over, it would end that
    print("\n".join(missing) or f"{len(found)} texts, all translated")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
