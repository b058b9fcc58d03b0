"""All figures of the panel, in the order in which they are read."""

from app.i18n.wording import mark
from app.telemetry import definitions
from app.telemetry.card import Card
from app.telemetry.charts.bandwidth_chart import BandwidthChart
from app.telemetry.charts.calibration_chart import CalibrationChart
from app.telemetry.charts.depth_chart import DepthChart
from app.telemetry.charts.line_chart import LineChart, Series
from app.telemetry.charts.memory_picture import MemoryPicture
from app.telemetry.charts.scope import Scope
from app.telemetry.charts.stack_chart import StackChart
from app.telemetry.curves import column, mean_accepted, mean_tokens_per_pass, mean_tokens_per_second, tokens_per_second
from app.telemetry.numbers import count

MEASURED = (BandwidthChart, MemoryPicture)
"""Pictures that show something of the pair itself: they have `show_pair`."""

_WIDEST = "9,999"


def build_cards(scope: Scope) -> tuple[Card, ...]:
    """One card per figure; those over time share `scope`."""
    return (
        Card(definitions.SPEED, _lines(scope, Series(mark("a round"), tokens_per_second, "pale", 1.0), _mean_speed())),
        Card(
            definitions.TOKENS_PER_PASS,
            _lines(scope, Series(mark("a round"), column("tokens"), "pale", 1.0), _mean_pass()),
        ),
        Card(definitions.TIME, StackChart(scope)),
        Card(definitions.TREE_SIZE, _lines(scope, Series(mark("nodes"), column("nodes"), "strong", 1.5))),
        Card(
            definitions.TREE_DEPTH,
            _lines(
                scope,
                Series(mark("depth"), column("depth"), "pale", 1.0),
                Series(mark("accepted, mean"), mean_accepted, "compute"),
            ),
        ),
        Card(definitions.BANDWIDTH, BandwidthChart(scope)),
        Card(definitions.BY_DEPTH, DepthChart()),
        Card(definitions.CALIBRATION, CalibrationChart()),
        Card(definitions.MEMORY, MemoryPicture()),
    )


def _mean_speed() -> Series:
    return Series(mark("mean"), mean_tokens_per_second, "strong")


def _mean_pass() -> Series:
    return Series(mark("mean"), mean_tokens_per_pass, "strong")


def _lines(scope: Scope, *series: Series) -> LineChart:
    return LineChart(scope, count, series, _WIDEST)
