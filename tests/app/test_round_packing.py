"""A packed round: the same bytes for the history and for the file, made once."""

from dataclasses import replace

from app.engine.round_packing import pack, unpack
from tests.app.tree.trees import random_round


def test_a_round_is_packed_once_for_all_who_keep_it() -> None:
    arrived = random_round(20, seed=1)
    assert pack(arrived) is pack(replace(arrived))
    assert pack(arrived) != pack(replace(arrived, index=arrived.index + 1))


def test_of_rounds_alike_but_for_their_request_each_comes_back_as_its_own() -> None:
    arrived = random_round(20, seed=1)
    for request in (3, 4):
        assert unpack(pack(replace(arrived, id=request)), request) == replace(arrived, id=request, text="")


def test_what_writes_no_text_is_kept_with_a_round_and_may_be_missing() -> None:
    arrived = random_round(20, seed=1)
    told = replace(arrived, tree=replace(arrived.tree, silent=(3, 7)))
    assert unpack(pack(told), told.id).tree.silent == (3, 7)
    assert unpack(pack(arrived), arrived.id).tree.silent is None
