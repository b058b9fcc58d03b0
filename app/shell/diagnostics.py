"""What helps to find out what is wrong, as text to hand on: no word of a chat, no token."""

import platform
from collections.abc import Iterable, Iterator
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version

import psutil
from PySide6.QtCore import qVersion
from PySide6.QtGui import QGuiApplication

from app.engine.state import EngineState
from app.settings.preferences import Preferences
from app.settings.store import Settings
from app.shell.faults.crash import log_excerpt, without_home
from app.system.paths import Folders
from engine import __version__
from engine.protocol.messages import ModelInfo

_PACKAGES = ("torch", "transformers", "PySide6-Essentials", "huggingface-hub", "bitsandbytes")
_NEVER = ("proxy", "endpoint", "news_address")  # an address can hold a name and a password
_WRITTEN = ("system_prompt", "stop_strings", "json_schema", "regex", "grammar")  # by a person


def diagnostics(state: EngineState, settings: Settings, folders: Folders) -> str:
    """Versions, platform, hardware, what is loaded and where, settings, and the last lines of both logs."""
    parts = (
        ("Coppice", _versions()),
        ("System", _system()),
        ("Engine", _engine(state)),
        ("Settings", _settings(settings)),
        ("Window's log", log_excerpt(folders.application_log, folders.chats_file)),
        ("Engine's log", log_excerpt(folders.engine_log, folders.chats_file)),
    )
    text = "\n\n".join(f"## {title}\n" + "\n".join(lines) for title, lines in parts)
    return without_home(text) + "\n"


def _versions() -> Iterator[str]:
    yield f"coppice {__version__}, Python {platform.python_version()}, Qt {qVersion()}"
    for name in _PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} not here"  # the engine may have a Python of its own


def _system() -> Iterator[str]:
    memory = psutil.virtual_memory()
    yield f"{platform.system()} {platform.release()}, {platform.machine()}, windows by {QGuiApplication.platformName()}"
    yield f"{psutil.cpu_count(logical=False)} cores, {psutil.cpu_count()} threads"
    yield f"RAM {memory.total / 1e9:.1f} GB, {memory.available / 1e9:.1f} GB free"


def _engine(state: EngineState) -> Iterator[str]:
    yield state.phase.value
    if state.pair is not None:
        yield "target: " + _model(state.pair.target)
        yield "draft: " + (_model(state.pair.draft) if state.pair.draft else "none")
        if state.pair.common_tokens:
            yield f"draft of another vocabulary: {state.pair.common_tokens.words}"
        yield f"context: {state.pair.context_tokens} tokens; loaded in {state.pair.seconds:.1f} s"
        yield "layers: " + _runs(state.pair.tiers)


def _model(model: ModelInfo) -> str:
    return (
        f"{model.name} ({model.family}), {model.parameters / 1e9:.2f}e9 parameters, {model.layers} layers, "
        f"{model.bytes / 1e9:.2f} GB, {model.weights}, {model.device}"
    )


def _runs(tiers: Iterable[str]) -> str:
    """Such as `0-11 device, 12-31 ram`."""
    runs: list[tuple[str, int, int]] = []
    for layer, tier in enumerate(tiers):
        if runs and runs[-1][0] == tier:
            runs[-1] = (tier, runs[-1][1], layer)
        else:
            runs.append((tier, layer, layer))
    return ", ".join(f"{first}-{last} {tier}" for tier, first, last in runs) or "not told"


def _settings(settings: Settings) -> Iterator[str]:
    """Options and figures; of texts that a person has written, and of addresses, only whether there are any."""
    for each in fields(Preferences):
        value = getattr(settings, each.name)
        hidden = each.name in _NEVER and value
        yield f"{each.name}: {'set' if hidden else value}"
    for each in fields(settings.generation):
        value = getattr(settings.generation, each.name)
        shown = ("set" if value else "empty") if each.name in _WRITTEN else value
        yield f"generation.{each.name}: {shown}"
