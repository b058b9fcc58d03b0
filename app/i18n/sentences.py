"""Sentences of the engine, the hub, downloads and the installation, in the person's language."""

from pathlib import Path

from app.i18n.number_text import Number, localised
from app.i18n.translation import tr
from engine.errors import CoppiceError
from engine.protocol.sentences import Amount, Sentence, Value, reason_of


def translated(*sentences: str) -> str:
    """Sentences after one another, empty ones left out. What is no `Sentence`, such as text of a file, stays."""
    return " ".join(_one(each) for each in sentences if each)


def error_text(error: BaseException) -> str:
    """Everything an error says, in the person's language; the name of its class where it says nothing."""
    if isinstance(error, CoppiceError):
        return translated(error.message, error.hint)
    said = str(error) or type(error).__name__
    return translated(error.args[0]) if error.args and error.args[0] == said else said


def reason_text(error: BaseException) -> str:
    """Why something failed, to stand behind a colon: what the system says of itself, in the person's language."""
    return translated(reason_of(error)) if isinstance(error, OSError) else str(error) or type(error).__name__


def without_folders(text: str) -> str:
    """The same sentence, in which files and folders are called by their names alone."""
    if isinstance(text, Sentence):
        values = {name: _name_alone(value) for name, value in text.values.items()}
        return Sentence(text.template.format(**values), text.template, values, text.is_opening)
    return text


def _name_alone(value: Value) -> Value:
    if isinstance(value, Sentence):
        return without_folders(value)
    if isinstance(value, str) and not isinstance(value, Amount) and Path(value).is_absolute():
        return Path(value).name or value
    return value


def _one(text: str) -> str:
    if not isinstance(text, Sentence):
        return text
    shown = tr(text.template).format(**{name: _filled_in(value) for name, value in text.values.items()})
    return shown[:1].upper() + shown[1:] if text.is_opening else shown


def _filled_in(value: Value) -> str | Number:
    if isinstance(value, Amount):
        return localised(value)
    return _one(value) if isinstance(value, str) else Number(value)
