"""What is looked at in the tree panel when something of it is to be exported."""

from dataclasses import dataclass

from app.i18n.translation import tr
from app.settings.generation import METHOD
from app.tree.elsewhere import Elsewhere
from app.tree.exports.pictures.subjects import Subject, WholeTree, shown_steps, shown_tree
from app.tree.header import figures
from app.tree.picture.canvas import TreeCanvas
from app.tree.rounds.snapshot import Snapshot
from app.ui.colors import TreeColors
from engine.protocol.messages import Round


@dataclass(frozen=True, eq=False)
class LookedAt:
    """`round`: the one whose tree the canvas shows; `steps`: the page of an engine elsewhere where that is shown."""

    canvas: TreeCanvas
    round: Round | None = None
    steps: Elsewhere | None = None

    @property
    def is_something(self) -> bool:
        """Whether there is anything to make a picture of."""
        return self.steps.has_steps if self.steps else self.tree is not None

    @property
    def tree(self) -> Snapshot | None:
        """The tree that is shown."""
        return self.canvas.picture.tree if self.canvas.picture and not self.steps else None

    def shown(self, own: TreeColors) -> Subject:
        """What is in view; `own` are the colours of the window."""
        return shown_steps(self.steps, own) if self.steps else shown_tree(self.canvas, own)

    def whole(self, own: TreeColors, width: float) -> Subject:
        """All of the tree, about so many logical pixels wide; of steps, what is in view."""
        if self.tree is None:
            return self.shown(own)
        return WholeTree(self.tree, self.canvas.way, own, self.canvas.font(), width)

    def caption(self, subject: Subject) -> str:
        """The figures of the round, and its method."""
        if self.steps:
            return " · ".join(each.text for each in self.steps.figures)
        assert self.tree, "there is something to be said of"
        words = [each.text for each in figures(self.tree, shown=subject.shown)]
        if self.round and self.round.method:
            words.append(method_name(self.round.method))
        return " · ".join(words)


def method_name(method: str) -> str:
    """As it is called in the settings; one that a newer version wrote, as it is."""
    return tr(dict(METHOD.choices).get(method, method))
