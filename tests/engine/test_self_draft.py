"""The target as its own draft: the same text in few passes, nothing held twice, and refusals in plain words."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch

from engine.engine import Engine, load
from engine.errors import Cancellation, InputError
from engine.loading.pair import open_pair
from engine.loading.planning import Question, plan_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.context import SharedContext
from engine.protocol.messages import Finished, Loaded, Round, Statistics
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.text.prompt import Prompt
from engine.weights.planning.machine import Memory
from engine.weights.planning.needs import Workload
from engine.weights.planning.placement import Override, plan
from tests.campaigns.extent import choose, for_the_proofs
from tests.engine.speculation.simulation import Machine, Trial
from tests.engine.weights.test_placement import gpu, model

CPU = torch.device("cpu")
PROMPT = Prompt(tuple(range(40, 60)))


@dataclass
class Answered:
    tokens: list[int]
    statistics: Statistics


def loaded(options: LoadOptions) -> tuple[Engine, Loaded]:
    steps = load(0, open_pair(options), Cancellation())
    told: Loaded | None = None
    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            assert told
            return end.value, told
        told = event if isinstance(event, Loaded) else told


def answered(engine: Engine, method: str, budget: int = 8, **sampling: float) -> Answered:
    options = GenerateOptions(
        SamplingOptions(seed=4, **sampling),  # type: ignore[arg-type]
        SpeculationOptions(method=method, budget=budget, depth=4),
        max_new_tokens=16,
        ignore_eos=True,
    )
    tokens: list[int] = []
    for event in engine.generate(1, PROMPT, options):
        if isinstance(event, Round):
            said = memoryview(event.tree.tokens).cast("i")
            tokens += [*(said[node] for node in event.accepted[1:]), event.bonus]
        if isinstance(event, Finished):
            assert event.statistics
            return Answered(tokens, event.statistics)
    raise AssertionError("no ending")


@pytest.fixture(scope="module")
def streaming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Loaded]]:
    cache = tmp_path_factory.mktemp("cache")
    engine, told = loaded(LoadOptions(draft="self", place="ssd", weights="float32", cache_dir=str(cache)))
    yield engine, told
    engine.close()


@for_the_proofs
@pytest.mark.parametrize("temperature", choose([0.8], [0.0, 0.8]))
def test_the_text_is_the_target_s_in_few_passes(streaming: tuple[Engine, Loaded], temperature: float) -> None:
    engine, _ = streaming
    resident, _ = loaded(LoadOptions(draft="none", weights="float32"))
    expected = answered(resident, "none", temperature=temperature)
    for method in ("auto", "none"):
        assert answered(engine, method, temperature=temperature).tokens == expected.tokens
    drafted = answered(engine, "specexec", temperature=temperature)
    assert drafted.tokens == expected.tokens
    assert drafted.statistics.drafted_nodes > 0
    assert drafted.statistics.passes <= expected.statistics.passes / 2


@for_the_proofs
@pytest.mark.parametrize("method", choose(["sequoia"], ["sequoia", "chain", "specinfer"]))
def test_the_methods_that_sample_their_trees_draft_with_the_copies_too(
    streaming: tuple[Engine, Loaded], method: str
) -> None:
    engine, _ = streaming
    greedy, plain = answered(engine, method), answered(engine, "none")
    assert greedy.tokens == plain.tokens
    assert greedy.statistics.passes <= plain.statistics.passes / 2
    warm, again = (answered(engine, method, temperature=0.8) for _ in range(2))
    assert warm.tokens == again.tokens
    assert warm.statistics.drafted_nodes > 0


@pytest.mark.parametrize(("level_seconds", "pays"), [(2.0, False), (0.1, True)])
def test_auto_drafts_with_copies_only_where_a_pass_over_them_is_cheaper(level_seconds: float, pays: bool) -> None:
    """Where unpacking and computing take longer than reading, as they may on a CPU, a level costs more than a pass."""
    trial = Trial(Machine(lambda rows: max(1.0, rows / 64), level_seconds, sureness=0.95))
    trial.run(40)
    late, reasons = [], []
    for _ in range(20):
        late += trial.run(1)
        reasons.append(trial.auto.reason)
    assert (sum(result.choice.budget > 0 for result in late) > 15) == pays
    assert any("does not pay here" in reason for reason in reasons) != pays  # but for a look now and then


def test_auto_s_text_is_the_target_s_too(streaming: tuple[Engine, Loaded]) -> None:
    engine, _ = streaming
    assert answered(engine, "auto", budget=0).tokens == answered(engine, "none").tokens


def test_nothing_is_held_twice_but_the_copies(streaming: tuple[Engine, Loaded]) -> None:
    engine, told = streaming
    assert isinstance(engine.draft, SharedContext)
    target, draft = engine.target.network.model, engine.draft.network.model
    assert draft.get_input_embeddings().weight.data_ptr() == target.get_input_embeddings().weight.data_ptr()
    assert draft.lm_head.weight.data_ptr() == target.lm_head.weight.data_ptr()
    assert engine.draft.tokens is engine.target.tokens
    assert told.draft
    assert told.draft.weights == "nf4"
    assert told.draft.bytes < told.target.bytes / 4


def test_what_makes_no_sense_is_refused_in_words() -> None:
    target = open_checkpoint("embedded")
    with pytest.raises(InputError, match="stay in memory"):
        plan_pair(target, None, CPU, Question(drafts_itself=True))
    on_ssd = Override(place="ssd")
    with pytest.raises(InputError, match="4 bits"):
        plan_pair(target, None, CPU, Question("nf4", drafts_itself=True, override=on_ssd))


def test_the_plan_counts_the_copies_and_says_when_they_do_not_fit() -> None:
    target, on_ssd = open_checkpoint("embedded"), Override(place="ssd")
    plain, copied = (
        plan_pair(target, None, CPU, Question(budget=64, drafts_itself=own, override=on_ssd)) for own in (False, True)
    )
    layers = sum(copied.layer_bytes)
    assert plain.bytes.draft == 0
    assert layers / 8 < copied.bytes.draft - max(copied.layer_bytes)
    assert copied.forecast.draft_seconds > 0
    needed = copied.bytes.device + copied.bytes.ram
    tight = plan_pair(target, None, CPU, Question(drafts_itself=True, memory=Memory(needed - 1), override=on_ssd))
    assert tight.verdict == "no"
    assert "the draft" in tight.reason


def test_a_gpu_keeps_fewer_layers_when_copies_need_room() -> None:
    """Every layer there is one copy less, so those that fit are worked out together."""
    needs = model()
    copying = replace(needs, layers=tuple(replace(layer, copy_bytes=layer.stored_bytes // 4) for layer in needs.layers))
    work = Workload(4096, budget=64, tokens_per_pass=20.0)
    alone, copied = (plan(own, None, gpu(80, 200), work) for own in (needs, copying))
    kept = copied.arrangement.count("device")
    assert copied.verdict == "offload"
    assert 0 < kept < alone.arrangement.count("device")
    per_layer = needs.layers[0].run_bytes
    copies = (80 - kept) * copying.layers[0].copy_bytes
    assert copies + per_layer < copied.bytes.draft < copies + 3 * per_layer
    assert copied.bytes.device <= copied.room.device < copied.bytes.device + per_layer
    assert copied.forecast.seconds_per_round > copied.forecast.seconds_per_pass + copied.forecast.draft_seconds / 2
