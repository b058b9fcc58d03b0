"""What an animation is made of, before it is made: how many rounds, how long, how large, and how a frame looks."""

import math
from functools import cached_property

from PySide6.QtCore import QSize
from PySide6.QtGui import QFont, QImage

from app.tree.exports.animations.formats import format_of
from app.tree.exports.animations.scene import Scene
from app.tree.exports.animations.story import END_MS, MOST_FRAMES, Frame, added, milliseconds, waves_of
from app.tree.exports.choices import SIZES, AnimationChoice
from app.tree.rounds.history import History
from app.tree.rounds.snapshot import Snapshot
from app.ui.colors import TreeColors
from engine.protocol.messages import Round

_MEASURED_PIXELS = math.prod(SIZES["wide"])
_LOOKED_AT = 40  # rounds whose time is looked up, spread over the answer


class Footage:
    """The rounds of an answer, in the places that `places` says. `shown`: the tree of a sample frame, of round `of`."""

    def __init__(self, history: History, places: range, shown: Snapshot, of: Round, font: QFont) -> None:
        self._history, self._places = history, places
        self._shown, self._of = shown, of
        self.font = font

    @property
    def rounds(self) -> int:
        """How many."""
        return len(self._places)

    def seconds(self, choice: AnimationChoice) -> float:
        """About how long it will last."""
        times = [milliseconds(each, choice) for each in self._known] or [milliseconds(self._of, choice)]
        return (sum(times) / len(times) * self.rounds + END_MS) / 1000

    def bytes(self, choice: AnimationChoice) -> float:
        """About how large the file will be."""
        form, (width, height) = format_of(choice.suffix), SIZES[choice.size]
        frames = min(MOST_FRAMES, self.rounds * (waves_of(self.rounds, choice) + 2 if choice.grows else 1))
        pixels = math.sqrt(width * height * _MEASURED_PIXELS)  # larger frames show the same, in longer lines
        return frames * pixels * form.bytes_per_pixel if form else 0.0

    def sample(self, choice: AnimationChoice, colors: TreeColors) -> QImage:
        """The round that is looked at, as a frame."""
        scene = Scene(QSize(*SIZES[choice.size]), choice.way, colors, self.font)
        accepted, bonus = added(self._of)
        image = scene.image(Frame(self._shown, self._text_before, 0, accepted, bonus))
        scene.close()
        return image

    @cached_property
    def _known(self) -> list[Round]:
        stride = -(-len(self._places) // _LOOKED_AT)
        rounds = (self._history.round(place) for place in self._places[::stride])
        return [each for each in rounds if each is not None]

    @cached_property
    def _text_before(self) -> str:
        """Of the rounds before it that are in memory and near."""
        end = self._history.find((self._of.id, self._of.index))
        if end is None:
            return ""
        near = range(max(self._places.start, end - _LOOKED_AT), end)
        rounds = [self._history.round(place) for place in near]
        return "".join(text for each in rounds if each is not None for text in added(each))
