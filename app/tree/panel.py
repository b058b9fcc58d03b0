"""The panel that shows the speculation tree of every round as it happens, and of every round that was."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QHideEvent, QKeyEvent, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QStackedLayout, QVBoxLayout, QWidget

from app.engine.listener import EventListener, takes
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.tree.bars import Advice, RecordingBar, Timeline
from app.tree.elsewhere import Elsewhere
from app.tree.explainer import ExplainerBar
from app.tree.exports.exports import Exports
from app.tree.exports.looked_at import LookedAt
from app.tree.header import Header, figures
from app.tree.picture.branching import Branching
from app.tree.picture.canvas import CHIPS, ICICLE, WAYS, ZOOM_STEP, TreeCanvas
from app.tree.picture.description import described
from app.tree.picture.moving.layer_strip import LayerStrip
from app.tree.picture.moving.live import Live, look_ms
from app.tree.picture.moving.motion import Motion
from app.tree.picture.picture import Way
from app.tree.rounds.filling import Filling
from app.tree.rounds.player import Player
from app.tree.rounds.snapshot import MalformedTreeError, Snapshot, snapshot
from app.tree.rounds.text import as_text
from app.tree.widgets import EMPTY, bind, message_label, tint
from app.ui.colors import DARK, LIGHT, Colors
from app.ui.throttle import Throttle
from app.ui.widgets import claims_escape
from engine.protocol.messages import Event, Failed, Finished, Loaded, Ready, Round
from engine.protocol.watching import Inspect, Inspected, Watch

FRAME_MS = 20  # between two updates, which take their time too: at least 30 a second are seen
_MALFORMED = mark("The tree of round {number} cannot be shown: {reason}. The answer itself is not affected.")
_LOST = mark("This round is not kept any more: there was no room for it, in memory or on the disk.")
_NO_ROUND = mark("There is no round to look at yet.")
_NO_ANSWER = mark("These rounds are a recording: there is no answer here that they belong to.")


KEYS = (
    (mark("Chips or icicle"), ("1", "2")),
    (mark("The whole tree"), ("F",)),
    (mark("Larger or smaller"), ("+", "-")),
    (mark("From token to token"), ("Left", "Right", "Up", "Down")),
    (mark("To the root, or to the bonus"), ("Home", "End")),
    (mark("Unfold guesses"), ("O",)),
    (mark("Continue from a rejected guess"), ("Return",)),
    (mark("The round before or after"), (",", ".")),
    (mark("Play or pause"), ("Space",)),
    (mark("Back to the newest round"), ("L",)),
    (mark("Explain this round"), ("E",)),
    (mark("Show the round in the answer"), ("A",)),
    (mark("Picture, animation, copy of the picture"), ("P", "M", "C")),
)
"""What keys do while the tree has the focus, for the list of shortcuts."""


class TreePanel(QWidget, EventListener):
    """Shows the newest round, or an earlier one. Takes rounds at any rate, paints at most 50 a second, none unseen."""

    way_chosen = Signal(str)
    """A person wants to see trees this way from now on."""

    command_wanted = Signal(object)
    """A `Watch` or an `Inspect` for the engine."""

    branch_wanted = Signal(int, int, str)
    """The answer of a request is to go on otherwise: with a text in place of what the round of this index gave."""

    budget_wanted = Signal(int)
    """The tree budget of the next answers; 0 for automatic."""

    round_shown = Signal(int, int)
    """The request and the index of a round of the conversation that is looked at; -1 and -1: the newest, or none."""

    answer_wanted = Signal(int, int)
    """A person wants to read what a round gave: its request and its index."""

    def __init__(self, parent: QWidget | None = None, colors: Colors | None = None) -> None:
        """Without `colors` they are those that fit the application's palette."""
        super().__init__(parent)
        self.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # time and tokens run so, in every language
        is_dark = self.palette().color(QPalette.ColorRole.Window).lightness() < 128
        colors = colors or (DARK if is_dark else LIGHT)
        self.player = Player(self)
        self._round: Round | None = None  # the newest
        self._shown: tuple[Round, Snapshot] | None = None
        self._shown_from = self.player.history  # whose round that is: those of recordings may have its numbers, too
        self._told = (-1, -1)  # with `round_shown`
        self._requests: set[int] = set()  # whose rounds belong to the conversation
        self._throttle = Throttle(self._refresh, FRAME_MS, parent=self)
        self.filling = Filling(self.player.conversation, self)
        self._header = Header(self)
        self._advice = Advice(self)
        self._recording = RecordingBar(self)
        self._message = message_label(tr(EMPTY), self)
        self._canvas = TreeCanvas(colors.tree, self)
        self.branching = Branching(self._canvas, self._hindrance)
        self._is_answering = False
        self.motion = Motion(self._canvas)
        self._strip = LayerStrip(colors.tree, self)
        self._leaves_room = False  # for the strip
        self._live = Live(self._strip, self._requests, self, self._is_growth_seen)
        self._elsewhere = Elsewhere(colors.tree, self._requests, self)
        self._explainer = ExplainerBar(self)
        self._timeline = Timeline(self.player, colors.tree, self)
        self.exports = Exports(self.player, self, self._look, self._text)
        self._pages = QStackedLayout()
        self._lay_out()
        self._connect()
        self._bind_keys()
        self.set_theme(colors)
        self.set_way(CHIPS)
        self._refresh()

    # ---- what comes from the engine ----------------------------------------------------------------------------------

    def follow(self, request: int) -> None:
        """The rounds of this request belong to the conversation; other requests' are nothing to see here."""
        self._requests.add(request)

    def on_events(self, events: Sequence[Event]) -> None:
        """Take what tells of trees; what is seen live, and of engines elsewhere, sees every event first."""
        for event in events:
            self._live.on_events((event,))
            if self._elsewhere.take(event):
                self._throttle.request()
            super().on_events((event,))

    def _is_growth_seen(self) -> bool:
        return self.player.follows_newest and self.isVisible() and not self._explainer.is_running

    @takes(Round)
    def _on_round(self, event: Round) -> None:
        if event.id in self._requests:
            self.show_round(event)

    @takes(Loaded)
    def _on_loaded(self, event: Loaded) -> None:
        self._advice.set_plan(event.small_trees)
        self._leaves_room = False

    @takes(Finished, Failed)
    def _on_ended(self, event: Finished | Failed) -> None:
        self._throttle.request()  # what grew as the answer was stopped is never checked: back to the last round
        if isinstance(event, Finished) and event.statistics and event.id in self._requests:
            self._advice.tell(event.statistics.note)

    def show_round(self, round: Round) -> None:
        """Keep a round, and show it soon if the newest is looked at; a newer one takes its place if it comes first."""
        self._round = round
        self.player.add(round)
        self._advice.learn(round)

    def clear(self) -> None:
        """Show that there is no round yet; what is still on its way of the rounds before is not wanted."""
        self._round = self._shown = None
        self._requests.clear()
        self.exports.stop()
        self._live.end()
        self._explainer.end()
        self._elsewhere.clear()
        self.player.clear()
        self.filling.clear()
        self._throttle.flush()

    # ---- what comes from the window ----------------------------------------------------------------------------------

    def set_way(self, way: str) -> None:
        """Show trees as `chips` or as `icicle`; anything else is taken for chips."""
        way = way if way in WAYS else CHIPS
        self._header.set_way(way)
        self._canvas.set_way(way)

    def set_budget(self, budget: int) -> None:
        """Which tree budget the next answer will have; 0 for automatic."""
        self._advice.set_budget(budget)

    def show_round_of(self, request: int, index: int) -> None:
        """Look at the round of a request, such as the one that a token of the answer came from."""
        place = self.player.find(request, index)
        if place is not None:
            self.player.seek(place)

    def glance_at(self, request: int, index: int) -> None:
        """Show the round of a request while it is pointed at in the answer; an index below 0: no longer."""
        self.player.glance(self.player.find(request, index) if index >= 0 and not self._explainer.is_running else None)

    def show_in_answer(self) -> None:
        """Have what the round that is shown gave to the answer brought into view."""
        if self.player.is_recording:
            self.tell(tr(_NO_ANSWER))
        elif self._shown:
            self.answer_wanted.emit(self._shown[0].id, self._shown[0].index)
        else:
            self.tell(tr(_NO_ROUND))

    def set_answering(self, answering: bool) -> None:
        """While an answer is written, no other one can be begun."""
        self._is_answering = self.player.is_awaiting = answering
        self._timeline.refresh()

    def tell(self, words: str) -> None:
        """Say something to be read once."""
        self._header.caption.show_news(words)

    def set_motion(self, wanted: bool) -> None:
        """Whether trees move as they grow, are checked and are cut."""
        self.motion.is_wanted = wanted
        self.motion.end()
        self._live.set_stepwise(wanted)

    def set_theme(self, colors: Colors) -> None:
        """Change the colours."""
        self.motion.end()
        tint(self, colors.tree)
        self._canvas.set_colors(colors.tree)
        self.exports.set_colors(colors.tree)
        self._live.set_colors(colors.tree)
        self._elsewhere.set_colors(colors.tree)
        self._timeline.ribbon.set_colors(colors.tree)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """With all lines that the header's buttons need; without the timeline, which makes room in a low window."""
        header, timeline = self._header, self._timeline
        lines = header.heightForWidth(self.width()) - header.minimumSizeHint().height()
        passed = 0 if timeline.isHidden() else timeline.minimumSizeHint().height()
        return super().minimumSizeHint() + QSize(0, max(0, lines) - passed)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Where the panel is low the tree and what is told of it come before the timeline."""
        super().resizeEvent(event)
        self._share_room()
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def event(self, event: QEvent) -> bool:
        """Escape ends the explanation of a round before it stops an answer; other parts may have come or gone."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._share_room()
        is_key = event.type() == QEvent.Type.ShortcutOverride  # events also come before there is an explainer
        return (is_key and self._explainer.is_running and claims_escape(event)) or bool(super().event(event))

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape ends the explanation; all other keys are shortcuts."""
        if event.key() == Qt.Key.Key_Escape and self._explainer.is_running:
            self._explainer.end()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """What the button above the tree offers, where a right click looks for it."""
        self._header.menu.popup(event.globalPos())

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Catch up with the rounds that came while the panel was out of sight."""
        super().showEvent(event)
        self._watch()
        self.filling.set_wanted(True)
        self._throttle.request()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Ask the engine for nothing while the panel is hidden."""
        super().hideEvent(event)
        self._live.end()
        self.filling.set_wanted(False)
        self.command_wanted.emit(Watch())

    @property
    def page(self) -> QWidget:
        """What the panel is for: the tree, or what there is in its place."""
        return self._pages.currentWidget() or self

    @property
    def shown_tree(self) -> Snapshot | None:
        """The tree of the round that is looked at; None while there is none."""
        return self._shown[1] if self._shown else None

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _share_room(self) -> None:
        """Layers that have passed will pass again: the timeline does not come and go with them."""
        self._leaves_room = self._leaves_room or self._strip.isVisible()
        passing = self._strip.sizeHint().height() if self._leaves_room and not self._strip.isVisible() else 0
        self._timeline.fit(self.height() - self.minimumSizeHint().height() - passing)

    def _lay_out(self) -> None:
        self.setAutoFillBackground(True)
        self._pages.addWidget(self._message)
        self._pages.addWidget(self._canvas)
        self._pages.addWidget(self._elsewhere)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._header)
        column.addWidget(self._advice)
        column.addWidget(self._recording)
        column.addLayout(self._pages, 1)
        column.addWidget(self._strip)
        column.addWidget(self._explainer)
        column.addWidget(self._timeline)

    def _connect(self) -> None:
        header, canvas, exports = self._header, self._canvas, self.exports
        header.fit.clicked.connect(canvas.fit)
        header.follow.toggled.connect(canvas.set_following)
        header.way_chosen.connect(self.choose_way)
        header.add_action(tr("Explain this round… (E)")).triggered.connect(self.explain)
        header.add_action(tr("Show in the answer (A)")).triggered.connect(self.show_in_answer)
        header.menu.addSeparator()
        for words, carry_out in exports.entries():
            header.add_action(words).triggered.connect(carry_out)
        exports.told.connect(header.caption.show_news)
        exports.recordings.changed.connect(self._recording.show_recording)
        self._recording.closed.connect(exports.recordings.close_recording)
        canvas.panned.connect(lambda: header.follow.setChecked(False))
        canvas.composed.connect(self._on_composed)
        canvas.asked.connect(self._on_asked)
        self.player.moved.connect(self._throttle.request)
        self.filling.filled.connect(self._timeline.refresh)
        self._live.grown.connect(self._show_tree)
        self._explainer.shown.connect(self._show_tree)
        self._explainer.ended.connect(self._on_explanation_ended)
        self._advice.budget_wanted.connect(self.budget_wanted)
        self.branching.wanted.connect(self._on_branch_wanted)

    def _bind_keys(self) -> None:
        """Those that buttons and sliders use too hold only while the tree itself has the focus."""
        player, canvas = self.player, self._canvas
        in_panel = {
            "1": lambda: self.choose_way(CHIPS),
            "2": lambda: self.choose_way(ICICLE),
            "F": canvas.fit,
            "+": lambda: canvas.zoom_by(ZOOM_STEP),
            "-": lambda: canvas.zoom_by(1 / ZOOM_STEP),
            ",": lambda: player.step(-1),
            ".": lambda: player.step(1),
            "L": player.go_live,
            "E": self.explain,
            "A": self.show_in_answer,
            "P": self.exports.export_picture,
            "M": self.exports.export_animation,
            "C": self.exports.copy_picture,
        }
        in_tree = {
            "Home": canvas.show_root,
            "End": canvas.show_bonus,
            "Left": lambda: canvas.pick(Way.PARENT),
            "Right": lambda: canvas.pick(Way.CHILD),
            "Up": lambda: canvas.pick(Way.UP),
            "Down": lambda: canvas.pick(Way.DOWN),
            "Space": player.toggle,
            "Return": self.branching.offer_picked,
            "O": canvas.open_fold,
        }
        bind(in_panel, self)
        bind(in_tree, canvas)

    def explain(self) -> None:
        """Tell the round that is looked at step by step."""
        if self._shown:
            self.player.pause()
            self._live.end_growth()
            self._explainer.begin(self._shown[1])
        else:
            self.tell(tr(_NO_ROUND))

    @takes(Ready)
    def _on_ready(self, _event: Ready) -> None:
        """A new engine is told anew."""
        self._watch()

    def _watch(self) -> None:
        self.command_wanted.emit(Watch(verdicts=True, drafts=True, layers=True) if self.isVisible() else Watch())

    def choose_way(self, way: str) -> None:
        """A person wants to see trees this way from now on."""
        self.set_way(way)
        self.way_chosen.emit(way)

    def _on_branch_wanted(self, text: str) -> None:
        if self._shown and not self.player.is_recording:
            self.branch_wanted.emit(self._shown[0].id, self._shown[0].index, text)

    def _on_asked(self, node: int) -> None:
        if (
            self._shown and self._shown[0].id > 0 and not self.player.is_recording
        ):  # else the engine knows no more of it
            of = self._shown[0]
            self.command_wanted.emit(Inspect(of.id, of.index, node))

    @takes(Inspected)
    def _on_inspected(self, told: Inspected) -> None:
        if self._shown and (self._shown[0].id, self._shown[0].index) == (told.id, told.index):
            self._canvas.tell(told)

    def _on_explanation_ended(self) -> None:
        if self._explainer.isAncestorOf(QApplication.focusWidget() or self):
            self._canvas.setFocus()
        self._shown = None
        self._throttle.request()

    def _hindrance(self) -> tuple[str, str]:
        """Why no branch can be begun from the round that is shown, in few words and as a tooltip."""
        if self.player.is_recording:
            return tr("not in a recording"), tr(_NO_ANSWER)
        return tr("once the answer is written") if self._is_answering else "", ""

    def _refresh(self) -> None:
        if not self.player.follows_newest:
            self._live.end_growth()  # what grows on must not take the place of what is looked at
        self._timeline.refresh()
        self._recording.setVisible(self.player.is_recording)
        is_elsewhere = self._elsewhere.is_newest and self.player.follows_newest
        self._header.set_tree(not is_elsewhere)
        if is_elsewhere:
            self._show_elsewhere()
        elif self.player.shown_place < 0:
            self._show_message(tr(EMPTY))
        elif self.isVisible() and not self._explainer.is_running:
            self._show()

    def _show(self) -> None:
        player = self.player
        of = (self._round if player.follows_newest else None) or player.current
        if of is None:
            if not player.is_on_its_way:
                self._show_message(tr(_LOST))
            return
        if self._shown_from is not player.history:
            self._shown, self._shown_from = None, player.history
        if not self._shown or (self._shown[0].id, self._shown[0].index) != (of.id, of.index):
            try:
                self._shown = (of, snapshot(of))
            except MalformedTreeError as error:
                self._show_message(tr(_MALFORMED).format(number=of.index + 1, reason=error))
                return
        self._tell_shown((-1, -1) if player.follows_newest or player.is_recording else (of.id, of.index))
        before = self._canvas.tree
        self._show_tree(self._shown[1])
        if self._shown[1] is not before:
            self.motion.begin(before, look_ms(of.seconds.decode) if player.follows_newest else player.pause_ms)

    def _tell_shown(self, shown: tuple[int, int]) -> None:
        if shown != self._told:
            self._told = shown
            self.round_shown.emit(*shown)

    def _show_tree(self, tree: Snapshot) -> None:
        self._pages.setCurrentWidget(self._canvas)
        self._canvas.show_tree(tree)

    def _show_elsewhere(self) -> None:
        self._shown = None
        self._canvas.show_tree(None)
        self._tell_shown((-1, -1))
        self._header.caption.show_figures(self._elsewhere.figures)
        self._pages.setCurrentWidget(self._elsewhere)

    def _text(self) -> str:
        """What is shown, to be copied; empty where there is nothing."""
        self._throttle.flush()  # the panel may have been opened a moment ago
        if self._pages.currentWidget() is self._elsewhere:
            return self._elsewhere.text
        return as_text(self._shown[1]) if self._shown else ""

    def _on_composed(self) -> None:
        picture = self._canvas.picture
        if picture:
            self._header.caption.show_figures(figures(picture.tree, shown=picture.shown))
            self._canvas.setAccessibleDescription(described(picture, self._header.caption.text()))

    def _look(self, stays: bool) -> LookedAt:
        """What is looked at, for a picture; a tree may be made to stay, whatever comes, until somebody goes on."""
        self._throttle.flush()  # the panel may have been opened a moment ago
        self.motion.end()
        if self._pages.currentWidget() is self._elsewhere:
            return LookedAt(self._canvas, steps=self._elsewhere)
        if stays:
            self.player.pause()
            self._throttle.flush()
        return LookedAt(self._canvas, self._shown[0] if self._shown else None)

    def _show_message(self, text: str) -> None:
        self._shown = None
        self._canvas.show_tree(None)
        self._header.caption.show_figures(())
        self._message.setText(text)
        self._pages.setCurrentWidget(self._message)
