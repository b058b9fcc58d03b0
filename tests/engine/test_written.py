"""Every round says of each of its tokens what it wrote, and how likely the target found it."""

from array import array

import pytest

from engine.observing.watcher import Watcher
from engine.protocol.messages import ChatMessage, Finished, Round
from engine.protocol.options import GenerateOptions, SamplingOptions, SpeculationOptions
from engine.protocol.watching import Watch
from tests.campaigns.extent import choose
from tests.engine.test_engine import Loads, loads

__all__ = ["loads"]


@pytest.mark.parametrize("method", choose(["specexec"], ["none", "specexec", "sequoia"]))
def test_lengths_and_probabilities_of_every_token(loads: Loads, method: str) -> None:
    watcher = Watcher()
    watcher.watch(Watch(verdicts=True))
    options = GenerateOptions(
        SamplingOptions(temperature=0.7, seed=5), SpeculationOptions(method), max_new_tokens=choose(24, 60)
    )
    prompt = loads.engine.prompt([ChatMessage("user", "Tell me of a café 🙂 and a fox.")])
    loads.cancellation.begin(1)
    events = list(loads.engine.generate(1, prompt, options, watcher))
    rounds = [each for each in events if isinstance(each, Round)]
    assert len(rounds) > 1
    for each in rounds:
        lengths, log_probs = array("I", each.lengths), array("f", each.log_probs)
        assert len(lengths) == len(log_probs) == each.new_tokens == len(each.accepted)
        assert sum(lengths) == len(each.text)
        assert each.verdicts is not None
        judged = array("f", each.verdicts.log_probs)
        wanted = [judged[node] for node in each.accepted[1:]] + [judged[-1]]
        assert log_probs.tolist() == pytest.approx(wanted, abs=1e-4)
    assert isinstance(events[-1], Finished)
