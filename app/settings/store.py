"""What a person has set, kept in one JSON file."""

import logging
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from app.i18n.sentences import reason_text
from app.settings.generation import DEFAULT_PRESET, GenerationSettings
from app.settings.kinds import Option, option, options_of
from app.settings.preferences import TINT_ORIGIN, Preferences
from app.system import json_text as json
from app.system.addresses import split_password
from app.system.files import write_private
from engine.errors import InputError
from engine.protocol.options import EMBEDDED, GenerateOptions, LoadOptions, Place

_log = logging.getLogger(__name__)
VERSION = 1  # of the file; another one's is copied before it is written over
_MOST_TARGETS = 300
_GB = 10**9
_HELD = {"loads": dict, "engines": dict, "exports": dict, "dock_widths": int}  # what fields hold under each name
_ADDRESSES = ("proxy", "endpoint")  # they may hold a password, which is none of this file's business
_Record = TypeVar("_Record", "GenerationSettings", "Settings")
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class Settings(Preferences):
    """Everything that outlives the window. `geometry` and `docks` are Qt's own state, in base 64.

    `drafts`: the draft that was last used with each target, as sources; `loads`: the other load options of each target,
    checked by who uses them; `models_geometry`: that of the Models dialog, `models_page`: its page that was left;
    `recent_commands`: what was last chosen in the command palette, the newest first; `chat_zoom`: of the chat's text,
    in percent, on top of `text_size`;
    `presets`: generation settings by name, of which one may be the default; `server_has_key`: clients of the local
    server must show one, which is in the keyring; `engines`: those elsewhere by the names that a person gave them,
    checked by who uses them; `engine`: the one that answers, empty for this computer; `exports`: what was last chosen
    of pictures and animations of trees, checked by who uses it; `toured`: the tour of the first run was shown;
    `files_folder`: in which a file was last chosen or written; `dock_widths`: how wide a person has the docks in a
    window that has room for them, in pixels; `allowed_tools`: those that answers may call without asking a person, as
    `server/tool`; `closed_folders`: those of chats whose chats the list does not show.
    """

    geometry: str = ""
    docks: str = ""
    target: str = EMBEDDED
    draft: str = "auto"
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    drafts: dict[str, str] = field(default_factory=dict)
    loads: dict[str, dict[str, Any]] = field(default_factory=dict)
    models_geometry: str = ""
    models_page: str = ""
    tree_way: str = "chips"
    chat_zoom: int = 100
    recent_commands: tuple[str, ...] = ()
    presets: dict[str, GenerationSettings] = field(default_factory=dict)
    default_preset: str = option("", DEFAULT_PRESET)
    server_has_key: bool = False
    engines: dict[str, dict[str, Any]] = field(default_factory=dict)
    engine: str = ""
    exports: dict[str, dict[str, Any]] = field(default_factory=dict)
    toured: bool = False
    files_folder: str = ""
    dock_widths: dict[str, int] = field(default_factory=dict)
    allowed_tools: tuple[str, ...] = ()
    closed_folders: tuple[str, ...] = ()

    @property
    def beginning(self) -> GenerationSettings:
        """What a new chat begins with."""
        return self.presets.get(self.default_preset, self.generation)

    def complete_load(self, options: LoadOptions) -> LoadOptions:
        """What was left open of how to load a pair, as Preferences have it."""
        return replace(
            options,
            place=cast(Place, self.place) if options.place == "auto" else options.place,
            vram_limit_bytes=options.vram_limit_bytes or round(self.vram_limit_gb * _GB),
            ram_limit_bytes=options.ram_limit_bytes or round(self.ram_limit_gb * _GB),
            overlap=options.overlap and self.overlap,
        )

    def complete_answer(self, options: GenerateOptions) -> GenerateOptions:
        """The same for how an answer is speculated on."""
        return replace(options, speculation=replace(options.speculation, lookup=self.lookup, calibrate=self.calibrate))


def options() -> dict[str, Option]:
    """Every option of Preferences by its name, in the order in which they were declared; those of answers first."""
    defaults = Settings()
    inner = {f"generation.{name}": each for name, each in options_of(defaults.generation).items()}
    return inner | options_of(defaults)


class SettingsFile:
    """The settings and the file they live in; every change is written at once.

    Passwords in addresses are taken out of whatever comes in, and wait in `take_passwords`. `set_aside`: where a file
    lies that could not be read at the start, and `reason` why.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._passwords: dict[str, str] = {}
        self._tell: Callable[[str], object] = lambda _: None
        self._failure = ""
        self.set_aside: Path | None = None
        self.reason = ""
        stored = self._read()
        taken = _without_passwords(stored)
        self._passwords |= taken
        stored = _renamed(stored)
        self.current = _fill(Settings(), stored)
        self._foreign = {name: value for name, value in stored.items() if name not in _NAMES}  # a newer version's
        if taken:
            self._write()

    def remember_draft(self, target: str, draft: str) -> None:
        """Keep the draft that a target was loaded with; the newest few hundred are kept."""
        self.change(drafts=_newest(self.current.drafts, target, draft))

    def remember_load(self, target: str, options: dict[str, Any]) -> None:
        """The same for the options that a target was loaded with."""
        self.change(loads=_newest(self.current.loads, target, options))

    def change(self, **changes: Any) -> None:
        """Replace the named fields of `Settings` and write the file; a full disk is told, not raised."""
        self._passwords |= _without_passwords(changes)
        changed = replace(self.current, **changes)
        if changed == self.current:
            return
        self.current = changed
        self._write()

    def follow_writing(self, tell: Callable[[str], object]) -> None:
        """Have `tell` called with the reason when the file could not be written, and with none when it could again."""
        self._tell = tell

    def take_passwords(self) -> dict[str, str]:
        """The passwords that addresses came with since the last time, by the addresses without them."""
        taken, self._passwords = self._passwords, {}
        return taken

    def _write(self) -> None:
        document = {**self._foreign, "version": VERSION, **asdict(self.current)}
        former, self._failure = self._failure, ""
        try:
            write_private(self.path, (json.dumps(document, indent=2) + "\n").encode())
        except OSError as error:
            _log.warning("The settings could not be written to %s: %s", self.path, error)
            self._failure = reason_text(error)
        if self._failure != former:
            self._tell(self._failure)

    def _read(self) -> dict[str, Any]:
        """What the file holds; one that we cannot read is kept for its owner, never overwritten."""
        try:
            return _read(self.path)
        except (OSError, ValueError, RecursionError) as error:
            self.reason = reason_text(error)
            self.set_aside = _set_aside(self.path, error)
            return {}


def _newest(kept: dict[str, _Kept], target: str, value: _Kept) -> dict[str, _Kept]:
    """What is kept of each target, with a newer value; the oldest targets go."""
    others = {each: old for each, old in kept.items() if each != target}
    return {**dict(list(others.items())[-_MOST_TARGETS + 1 :]), target: value}


_NAMES = {each.name for each in fields(Settings)} | {"version"}


def _read(path: Path) -> dict[str, Any]:
    """What the file holds; what another version wrote is copied, so that going back or forth loses nothing."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(stored, dict):
        return {}
    version = stored.get("version", VERSION)
    if version != VERSION and type(version) is int:
        copy, content = path.with_suffix(f".v{version}.json"), dict(stored)
        _without_passwords(content)
        try:
            write_private(copy, (json.dumps(content, indent=2) + "\n").encode())
            _log.warning("The settings are of another version of Coppice; %s is a copy of them", copy)
        except OSError as error:
            _log.warning("The settings of another version could not be copied: %s", error)
    return stored


def _renamed(stored: dict[str, Any]) -> dict[str, Any]:
    """What older versions of Coppice wrote, by the names of today; what has those already is not changed."""
    today = {name: value for name, value in stored.items() if name != "chat_tint"}
    if stored.get("chat_tint") is True:  # there was one tint, on or off
        today.setdefault("token_tint", TINT_ORIGIN)
    return today


def _set_aside(path: Path, error: Exception) -> Path:
    """Move a file away; returns where it lies now."""
    aside = path.with_suffix(".damaged.json")
    _log.warning("The settings in %s cannot be read (%s); they were moved to %s", path, error, aside)
    try:
        path.replace(aside)
    except OSError as failure:
        _log.warning("They could not be moved: %s", failure)
        return path
    return aside


def _fill(defaults: _Record, stored: object) -> _Record:
    """`defaults` with every stored value that has the right name, type and range."""
    if not isinstance(stored, dict):
        return defaults
    known: dict[str, Any] = {}
    options = options_of(defaults)
    for each in fields(defaults):
        default, value = getattr(defaults, each.name), stored.get(each.name)
        if isinstance(default, GenerationSettings):
            known[each.name] = _checked(_fill(default, value))
        elif each.name == "presets":
            known[each.name] = _read_presets(value)
        elif isinstance(default, dict):
            kind = _HELD.get(each.name, str)
            items = value.items() if isinstance(value, dict) else ()
            known[each.name] = {name: item for name, item in items if type(item) is kind}
        elif isinstance(default, tuple):
            known[each.name] = tuple(item for item in value if type(item) is str) if type(value) is list else ()
        elif type(value) is type(default):
            known[each.name] = value
        elif isinstance(default, float) and type(value) is int and abs(value) <= sys.float_info.max:
            known[each.name] = float(value)
        if each.name in options and not options[each.name].allows(known.get(each.name, default)):
            del known[each.name]
    return replace(defaults, **known)


def read_generation(stored: object) -> GenerationSettings:
    """Generation settings as JSON held them; defaults for whatever is not there or cannot be used."""
    return _checked(_fill(GenerationSettings(), stored))


def _read_presets(stored: object) -> dict[str, GenerationSettings]:
    items = stored.items() if isinstance(stored, dict) else ()
    return {name: read_generation(item) for name, item in items if type(name) is str and name.strip()}


def _checked(generation: GenerationSettings) -> GenerationSettings:
    try:
        generation.check()
    except InputError:
        return GenerationSettings()
    return generation


def _without_passwords(values: dict[str, Any]) -> dict[str, str]:
    """Take the passwords out of the addresses among these settings; returns them, by the addresses that are left."""
    taken = {}
    for name in _ADDRESSES:
        if isinstance(values.get(name), str):
            values[name], password = split_password(values[name])
            if password:
                taken[values[name]] = password
    return taken
