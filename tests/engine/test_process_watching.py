"""What is watched of the rounds comes from the engine process while it answers, and only while it is asked for."""

from array import array

from engine.protocol.messages import Cancel, Generate, Round
from engine.protocol.options import GenerateOptions, SpeculationOptions
from engine.protocol.watching import Drafted, Inspect, Inspected, Watch
from tests.campaigns.extent import choose
from tests.engine.child import STORY, Child

SLOW = GenerateOptions(speculation=SpeculationOptions(budget=choose(1024, 2048)), max_new_tokens=1900, ignore_eos=True)
"""Trees so large that one can see them grow, whatever the machine."""


def next_round(child: Child, watched: bool) -> Round:
    """The next round that was begun since it is watched, or since it is not."""
    while True:
        event = child.receive()
        if isinstance(event, Round) and (event.verdicts is not None) == watched:
            return event


def test_nothing_is_told_unasked_and_everything_when_asked(lasting: Child) -> None:
    lasting.load(201)
    lasting.connection.send(Generate(202, STORY, SLOW))
    assert next_round(lasting, watched=False).verdicts is None
    lasting.connection.send(Watch(verdicts=True, drafts=True))
    drafts: list[Drafted] = []
    seen: Round | None = None
    while not drafts or seen is None or not seen.tree.tokens:
        event = lasting.receive()
        if isinstance(event, Drafted):
            drafts.append(event)
        elif isinstance(event, Round) and event.verdicts:
            seen = event
            nodes = len(array("i", event.tree.tokens))
            ranks, log_probs = array("i", event.verdicts.ranks), array("f", event.verdicts.log_probs)
            assert len(ranks) == len(log_probs) == nodes + 1
            assert min(ranks[1:]) >= 1
            assert max(log_probs[1:]) <= 0
    assert drafts[0].id == 202
    lasting.connection.send(Watch())
    next_round(lasting, watched=False)
    lasting.connection.send(Cancel(through=202))
    lasting.until_the_end(202)


def test_the_last_round_can_be_asked_about_when_the_answer_is_there(lasting: Child) -> None:
    lasting.load(203)
    lasting.connection.send(Watch(verdicts=True))
    lasting.start_endless(204)
    newest = next_round(lasting, watched=True)
    lasting.connection.send(Cancel(through=204))
    for event in lasting.until_the_end(204):
        newest = event if isinstance(event, Round) else newest
    lasting.connection.send(Inspect(204, newest.index, newest.accepted[-1]))
    told = lasting.receive()
    assert isinstance(told, Inspected)
    assert (told.id, told.index, told.node) == (204, newest.index, newest.accepted[-1])
    assert list(told.log_probs) == sorted(told.log_probs, reverse=True)
    assert len(told.tokens) == len(told.pieces) == 8
    assert newest.verdicts is not None
    place = told.tokens.index(newest.bonus) if newest.bonus in told.tokens else None
    lasting.connection.send(Watch())
    rank = array("i", newest.verdicts.ranks)[-1]
    assert rank > 8 if place is None else abs(rank - 1 - place) <= told.log_probs.count(told.log_probs[place])
