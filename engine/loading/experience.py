"""What a pair's last answer gave, remembered for the next plan: a figure of its own is better than a published one."""

from engine.loading.loading import cache_root
from engine.loading.pair import Pair
from engine.loading.planning import pair_key
from engine.loading.rates_file import Experience, RatesFile
from engine.protocol.messages import Statistics
from engine.protocol.options import LoadOptions, SpeculationOptions

LEAST_PASSES = 8  # fewer say little


def remember_answer(pair: Pair, speculation: SpeculationOptions, statistics: Statistics) -> None:
    """Keep tokens and seconds per pass of an answer that was drafted for, and long enough, under method and budget."""
    drafts = pair.draft is not None or pair.drafts_itself
    if not drafts or statistics.passes < LEAST_PASSES or not statistics.drafted_nodes:
        return
    key = pair_key(pair.target, pair.draft, pair.options, speculation.budget, speculation.method)
    seconds = statistics.seconds.decode / statistics.passes
    RatesFile(cache_root(pair.options)).remember_pair(key, Experience(statistics.tokens_per_pass, seconds))


def recall_answer(pair: Pair, options: LoadOptions, budget: int) -> Experience | None:
    """What was kept for the pair under these options and this budget."""
    return RatesFile(cache_root(options)).recall_pair(pair_key(pair.target, pair.draft, options, budget))
