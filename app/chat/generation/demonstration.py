"""The embedded pair is there to show what Coppice does: it grows trees to see, though it is too small to need them."""

from dataclasses import replace

from app.engine.state import EngineState
from engine.protocol.options import EMBEDDED, GenerateOptions

BUDGET = 64


def demonstrating(options: GenerateOptions, engine: EngineState) -> GenerateOptions:
    """The same, but with a tree of `BUDGET` nodes where everything is left to the engine and the pair is the demo.

    Resident and tiny, it would be fastest with hardly any tree. The text is the same either way.
    """
    speculation = options.speculation
    is_left_open = speculation.method == "auto" and not speculation.budget
    if engine.pair is None or engine.pair.target.source != EMBEDDED or not is_left_open:
        return options
    return replace(options, speculation=replace(speculation, budget=BUDGET))
