"""Generation settings by name, kept with the other settings; one of them may be what new chats begin with."""

from app.i18n.translation import tr
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from engine.errors import InputError

_LONGEST_NAME = 60


class Presets:
    """Saves, renames and deletes presets. Every method raises `InputError` for a name that cannot be used."""

    def __init__(self, settings: SettingsFile) -> None:
        self._settings = settings

    @property
    def names(self) -> list[str]:
        """All names, in alphabetical order."""
        return sorted(self._settings.current.presets, key=str.casefold)

    @property
    def default(self) -> str:
        """The name of what new chats begin with; empty while that is no preset."""
        return self._settings.current.default_preset if self._settings.current.default_preset in self.names else ""

    @property
    def beginning(self) -> GenerationSettings:
        """What new chats begin with."""
        return self._settings.current.beginning

    def named(self, name: str) -> GenerationSettings:
        """The settings of that name."""
        return self._settings.current.presets[self._known(name)]

    def name_of(self, generation: GenerationSettings) -> str:
        """The name of these very settings; empty if they are in no preset."""
        return next((name for name in self.names if self._settings.current.presets[name] == generation), "")

    def save(self, name: str, generation: GenerationSettings) -> str:
        """Keep settings under a name, in place of what has it; returns the name as it is kept."""
        name = _tidied(name)
        generation.check()
        self._settings.change(presets={**self._settings.current.presets, name: generation})
        return name

    def kept(self, name: str) -> GenerationSettings | None:
        """What has this name by now, if anything."""
        return self._settings.current.presets.get(_tidied(name))

    def rename(self, old: str, new: str) -> str:
        """Give a preset another name that no other has; returns it as it is kept."""
        old, new = self._known(old), _tidied(new)
        if new != old and new in self.names:
            raise InputError(tr("There is a preset “{name}” already.").format(name=new), tr("Choose another name."))
        presets = {new if name == old else name: each for name, each in self._settings.current.presets.items()}
        self._settings.change(presets=presets, default_preset=new if self.default == old else self.default)
        return new

    def delete(self, name: str) -> None:
        """Forget a preset; conversations that were given its settings keep them."""
        name = self._known(name)
        presets = {each: kept for each, kept in self._settings.current.presets.items() if each != name}
        self._settings.change(presets=presets, default_preset="" if self.default == name else self.default)

    def set_default(self, name: str) -> None:
        """Have new chats begin with a preset; with none of them for an empty name."""
        self._settings.change(default_preset=self._known(name) if name else "")

    def _known(self, name: str) -> str:
        name = _tidied(name)
        if name not in self._settings.current.presets:
            words = tr("There is no preset “{name}”.").format(name=name)
            raise InputError(words, tr("Save the settings under this name first."))
        return name


def _tidied(name: str) -> str:
    name = " ".join("".join(each if each.isprintable() else " " for each in name).split())
    if not name:
        raise InputError(tr("A preset needs a name."), tr("Write one into the field."))
    if len(name) > _LONGEST_NAME:
        words = tr("The name has {count} letters.").format(count=len(name))
        raise InputError(words, tr("Use at most {count}.").format(count=_LONGEST_NAME))
    return name
