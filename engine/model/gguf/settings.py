"""The settings of a network in a GGUF file's metadata, checked as they are asked for."""

import struct
from collections.abc import Mapping

from engine.errors import ModelError
from engine.gguf_header import FETCH_AGAIN, LazyArray
from engine.model.gguf.header import GgufHeader
from engine.protocol.sentences import say, shown

LARGEST_FLOAT32 = 3.4e38
MAX_LIST = 4096  # elements of a list with an entry for each layer


class Settings:
    """The entries that begin with the name of the architecture; all methods take the rest of the name."""

    def __init__(self, header: GgufHeader, name: str) -> None:
        """`name` is what people call the model."""
        self.architecture = header.architecture
        self._metadata: Mapping[str, object] = header.metadata
        self._name = name

    def has(self, key: str) -> bool:
        """Whether there is such an entry."""
        return f"{self.architecture}.{key}" in self._metadata

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number from 0 on, or a list in which all layers have the same; without a default it must be there."""
        value = self._value(key)
        if value is None and default is not None:
            return default
        if isinstance(value, LazyArray):
            numbers = set(self.several(key))
            value = numbers.pop() if len(numbers) == 1 else value
        if type(value) is not int or value < 0:
            raise self.refused(key)
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """A truth; `default` where the file says nothing."""
        value = self._value(key)
        if value is not None and not isinstance(value, bool):
            raise self.refused(key)
        return default if value is None else value

    def real(self, key: str, default: float | None = None) -> float:
        """A number; without a default it must be there."""
        value = self._value(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.refused(key)
        return shortest(float(value))

    def text(self, key: str) -> str:
        """A string; empty if it is not there."""
        value = self._value(key)
        return value if isinstance(value, str) else ""

    def several(self, key: str) -> tuple[int | float | bool | str, ...]:
        """A list of moderate length; empty if there is none."""
        value = self._value(key)
        if not isinstance(value, LazyArray):
            return ()
        if value.count > MAX_LIST:
            raise self.refused(key)
        return tuple(value.read())

    def refused(self, key: str) -> ModelError:
        """The refusal of a model for this entry."""
        return ModelError(
            say(
                "The file of '{name}' does not say {entry} in a way that can be used.",
                name=self._name, entry=shown(f"{self.architecture}.{key}"),
            ),
            FETCH_AGAIN,
        )  # fmt: skip

    def _value(self, key: str) -> object:
        return self._metadata.get(f"{self.architecture}.{key}")


def predicting_layers(settings: Settings) -> int:
    """How many of the file's layers stand behind those of the language model, and only predict further tokens."""
    count = settings.whole("nextn_predict_layers", 0)
    if count >= settings.whole("block_count"):
        raise settings.refused("nextn_predict_layers")
    return count


def shortest(value: float) -> float:
    """The decimal number of fewest digits that has the same float32, as which it was stored: 1e-6, not 9.999999e-7."""
    for digits in range(6, 10) if abs(value) < LARGEST_FLOAT32 else ():
        made = float(f"{value:.{digits}g}")
        if struct.pack("<d", value) == struct.pack("<d", *struct.unpack("<f", struct.pack("<f", made))):
            return made
    return value
