"""Texts that make way for others and come back: every bit as if they had stayed, and never more bytes than allowed."""

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.errors import OutOfMemory
from engine.loading.kept import kept_texts
from engine.loading.kept.kept_texts import LEAST_TOKENS, KeptTexts, texts_of
from engine.loading.oom_retry import GuardedContext
from engine.model.context import Context, same_tokens
from engine.model.network import Network
from engine.model.passes.kept_text import KeptText
from engine.protocol.options import LoadOptions
from engine.weights.planning.machine import Room
from tests.bench.taking_turns import measure
from tests.campaigns.extent import choose
from tests.engine.model.heads.test_head_context import Case
from tests.engine.model.heads.test_head_context import made as made_with_head
from tests.engine.model.state.test_hybrid_context import made, path_to, random_tree
from tests.engine.model.test_rope import network as network_by_length
from tests.engine.tiny_models import tiny_network

PLENTY = 1 << 40
CAPACITY = 256
ROUNDS = choose(8, 60)
NETWORKS: dict[str, Callable[[], Network]] = {
    "sliding": lambda: tiny_network("gemma3"),
    "states": lambda: made("qwen3_5_text"),
    "indexed": lambda: made("glm_moe_dsa"),
    "read again beyond a length": lambda: network_by_length("phi3, longrope"),
    "states and attention in every layer": lambda: made("falcon_h1"),
    "states, and keys of blocks": lambda: made("qwen4_exp_text"),
    "turned by length": lambda: network_by_length("llama, dynamic"),
}
KINDS = choose(tuple(NETWORKS)[:4], tuple(NETWORKS))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single token is worth a copy."""
    monkeypatch.setattr(kept_texts, "LEAST_TOKENS", 1)
    monkeypatch.setattr(kept_texts, "COPIES_PER_READ", CAPACITY)


def answered(context: Context, prompt: Sequence[int], seed: int) -> tuple[int, Tensor]:
    """Read a prompt and commit a path of a tree behind it; returns what was read already, and the tree's logits."""
    tokens, parents = random_tree(9, seed)
    known = context.prefill(prompt)
    logits = context.score(tokens, parents)
    context.keep(path_to(8, parents))
    return known, logits


class Mirrored(Context):
    """Beside it a `twin` that reads the same; where a text is copied to the host, the whole twin is set aside."""

    def __init__(self, network: Network) -> None:
        super().__init__(network, CAPACITY)
        self.twin = Context(network, CAPACITY)
        self.restored = 0
        self._aside: list[tuple[KeptText, Context]] = []

    def copied_text(self) -> KeptText:
        network = self.network
        kept = super().copied_text()
        self._aside.append((kept, deepcopy(self.twin, {id(network): network, id(network.rope): network.rope})))
        return kept

    def restore(self, kept: KeptText, length: int) -> None:
        super().restore(kept, length)
        self.twin = next(twin for text, twin in self._aside if text is kept)
        self.restored += 1


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_that_comes_back_is_as_if_it_had_stayed(kind: str) -> None:
    chance, texts, context = random.Random(5), KeptTexts(PLENTY), Mirrored(NETWORKS[kind]())
    conversations = [[20], [20, 21], [22]]
    for turn in range(ROUNDS):
        number = chance.randrange(len(conversations))
        said = conversations[number]
        kept = said[: chance.randint(1, len(said))] if chance.random() < 0.3 else said
        prompt = [*kept, *(chance.randrange(3, 131) for _ in range(chance.randint(1, 12)))][: CAPACITY // 2]
        texts.begin()
        texts.exchange(context, prompt)
        known, logits = answered(context, prompt, turn)
        expected = answered(context.twin, prompt, turn)
        assert known == expected[0]
        assert torch.equal(logits, expected[1])
        assert context.tokens == context.twin.tokens
        conversations[number] = list(context.tokens)
    assert context.restored > 1


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """The same target and head twice: what a target computes is recorded for every context of its network."""
    return [made_with_head("qwen3_5_text", tmp_path_factory.mktemp("model")) for _ in range(2)]


@pytest.mark.usefixtures("always")
def test_a_head_finds_again_what_its_target_recorded(heads: list[Case]) -> None:
    texts = KeptTexts(PLENTY)
    (host, head), (other_host, other_head) = (case.pair() for case in heads)
    first, second = list(range(20, 43)), list(range(60, 83))
    for context in (host, head, other_host, other_head):
        context.prefill(first)
    for prompt in (second, [*first, 50, 51]):
        texts.begin()
        for context in (host, head):
            texts.exchange(context, prompt)
            context.prefill(prompt)
    for context in (other_host, other_head):
        assert context.prefill([*first, 50, 51]) == len(first)
    tokens, parents = random_tree(9, 1)
    for found, expected in ((host, other_host), (head, other_head)):
        assert torch.equal(found.score(tokens, parents), expected.score(tokens, parents))


@pytest.mark.usefixtures("always")
def test_a_context_that_never_read_takes_a_text_too() -> None:
    network = made("falcon_h1")
    first, other = Context(network, CAPACITY), Context(network, 4)
    first.prefill(list(range(20, 43)))
    other.restore(first.copied_text(), 23)
    assert other.text_bytes == first.text_bytes == first.copied_text().nbytes
    tokens, parents = random_tree(9, 2)
    assert torch.equal(other.score(tokens, parents), first.score(tokens, parents))


class Holder:
    """A context without numbers: a token takes 4 bytes."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.restored = 0

    def rewind(self, length: int) -> None:
        del self.tokens[length:]

    def common(self, tokens: Sequence[int]) -> int:
        return same_tokens(self.tokens, tokens)

    def common_with(self, kept: KeptText, tokens: Sequence[int]) -> int:
        return same_tokens(kept.tokens, tokens)

    @property
    def text_bytes(self) -> int:
        return 4 * len(self.tokens)

    def copied_text(self) -> KeptText:
        return KeptText(tuple(self.tokens), ({"keys": torch.zeros(len(self.tokens))},))

    def text_in_place(self) -> KeptText:
        return self.copied_text()

    def restore(self, kept: KeptText, length: int) -> None:
        self.tokens = list(kept.tokens[:length])
        self.restored += 1


CLIENTS = st.integers(0, 4)


@settings(max_examples=choose(40, 1000), deadline=None)
@given(
    st.integers(0, 3000),
    st.lists(st.tuples(st.integers(0, 1), CLIENTS, st.integers(0, 300), st.integers(-1000, 4000)), max_size=30),
)
def test_no_more_bytes_are_taken_than_are_allowed_and_free(most: int, turns: list[tuple[int, int, int, int]]) -> None:
    holders, others_leave = (Holder(), Holder()), [0]
    texts = KeptTexts(most, lambda: others_leave[0] - texts.nbytes)
    for which, client, length, room in turns:
        others_leave[0], bound = room, max(0, min(most, room))
        texts.begin()
        assert texts.nbytes <= bound
        prompt, holder = [client] * length, holders[which]
        held = holder.common(prompt)
        texts.exchange(holder, prompt)
        assert texts.nbytes <= bound
        assert holder.common(prompt) >= held
        holder.tokens = prompt


def test_two_texts_change_places_and_a_third_takes_the_older_ones() -> None:
    texts, holder = KeptTexts(8 * 200), Holder()
    for client in (1, 2, 1, 3):
        texts.begin()
        texts.exchange(holder, [client] * 200)
        if client == 1 and holder.restored:
            assert holder.tokens == [1] * 200
        holder.tokens = [client] * 200
    assert holder.restored == 1
    assert len(texts) == 2
    assert texts.clear()
    assert not texts.clear()


@pytest.mark.parametrize(("taken", "most"), [(600, 100), (1000, 0), (1200, 0)])
def test_the_bound_is_a_part_of_what_a_plan_leaves_free(taken: int, most: int) -> None:
    plan = Mock(room=Room(device=0, ram=1000, shared=True), bytes=Mock(device=taken, ram=0))
    assert texts_of(plan, "cpu").most_bytes == most


def test_what_is_soon_read_again_is_not_copied() -> None:
    texts, holder = KeptTexts(PLENTY), Holder()
    holder.tokens = [1] * (LEAST_TOKENS - 1)
    texts.exchange(holder, [2])
    holder.tokens = [1] * 4000 + [2] * LEAST_TOKENS
    texts.exchange(holder, [1] * 4000 + [3])
    assert len(texts) == 0


def test_a_target_s_text_is_not_given_up_for_its_draft_s() -> None:
    texts, target, draft = KeptTexts(4 * 250), Holder(), Holder()
    target.tokens, draft.tokens = [1] * 200, [1] * 200
    texts.begin()
    for holder in (target, draft):
        texts.exchange(holder, [2] * 200)
        holder.tokens = [2] * 200
    texts.begin()
    texts.exchange(target, [1] * 200)
    assert target.tokens == [1] * 200


def test_memory_that_runs_out_takes_the_kept_texts_first() -> None:
    network, texts = tiny_network("llama"), KeptTexts(PLENTY)
    context = Context(network, CAPACITY)
    guarded = GuardedContext(context, "the target", texts)
    guarded.prefill(list(range(3, 103)))
    guarded.prefill(list(range(20, 120)))
    assert len(texts) == 1
    failures = [True]

    def fail(*_: Any) -> None:
        if failures and failures.pop():
            raise MemoryError

    network.layers[2].register_forward_pre_hook(fail)
    assert guarded.score([7], [-1]).shape == (1, 131), "tried again with what they gave back"
    assert len(texts) == 0
    failures.append(True)
    with pytest.raises(OutOfMemory):
        guarded.score([8], [0])


def test_a_copy_that_there_is_no_memory_for_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(tiny_network("llama"), CAPACITY)
    guarded = GuardedContext(context, "the target", KeptTexts(PLENTY))
    guarded.prefill(list(range(3, 103)))

    def fail(_context: Context) -> KeptText:
        raise MemoryError

    monkeypatch.setattr(Context, "copied_text", fail)
    assert guarded.prefill(list(range(20, 120))) == 0
    assert context.length == 100


@pytest.mark.parametrize(("error", "left"), [(torch.OutOfMemoryError("CUDA out of memory"), 2), (MemoryError(), 0)])
def test_a_text_that_cannot_be_brought_back_is_read_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, left: int
) -> None:
    """What RAM holds is given up where RAM ran out; a GPU gets its cached memory back in either case."""
    context, texts, given_back = Context(tiny_network("llama"), CAPACITY), KeptTexts(PLENTY), Mock()
    guarded = GuardedContext(context, "the target", texts)
    guarded.prefill(list(range(3, 103)))
    guarded.prefill(list(range(20, 120)))
    monkeypatch.setattr(Context, "restore", Mock(side_effect=error))
    monkeypatch.setattr("engine.loading.oom_retry.give_back_memory", given_back)
    assert guarded.prefill(list(range(3, 103))) == 0
    assert context.length == 100
    assert len(texts) == left
    given_back.assert_called_once_with()


@pytest.mark.parametrize("draft", choose(("auto",), ("auto", "none", "self")))
def test_clients_that_take_turns_get_the_same_for_a_part_of_the_reading(draft: str, tmp_path: Path) -> None:
    options = LoadOptions(draft=draft, place="ssd" if draft == "self" else "auto", cache_dir=str(tmp_path))
    found = measure(options, clients=2, turns=2, new_tokens=6)
    assert found["same_answers"]
    assert found["read_with_texts_kept"] < 0.6 * found["read_without"]
