"""The small sign in the status bar that downloads go on, and how far they are."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app.downloads.progress import Progress, State
from app.i18n.translation import tr


class DownloadIndicator(QToolButton):
    """Hidden while there is nothing to tell."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("quiet")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        self.setToolTip(tr("Show the downloads"))
        self.setAccessibleName(tr("Downloads"))
        self.hide()

    def show_downloads(self, downloads: tuple[Progress, ...]) -> None:
        """Follow the queue."""
        words = in_short(downloads)
        self.setText(words)
        self.setAccessibleName(tr("Downloads: {words}").format(words=words) if words else tr("Downloads"))
        self.setVisible(bool(words))


def in_short(downloads: tuple[Progress, ...]) -> str:
    """Such as `2 downloads, 43 %`; what stands still or has failed is said, what is over is not."""
    going = [each for each in downloads if each.state.is_running or each.state is State.QUEUED]
    paused = [each for each in downloads if each.state is State.PAUSED]
    failed = [each for each in downloads if each.state is State.FAILED]
    if going:
        total = sum(each.bytes_total for each in going)
        share = f", {sum(each.bytes_done for each in going) / total:.0%}".replace("%", " %") if total else ""
        still = tr(", stalled") if all(each.state is State.STALLED for each in going) else ""
        return f"{_counted(going)}{share}{still}"
    if failed:
        return tr("{downloads} failed").format(downloads=_counted(failed))
    return tr("{downloads} paused").format(downloads=_counted(paused)) if paused else ""


def _counted(downloads: list[Progress]) -> str:
    count = len(downloads)
    return tr("1 download") if count == 1 else tr("{count} downloads").format(count=count)
