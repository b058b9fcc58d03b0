"""Where the budget is chosen round by round, there is memory for every tree that may come, and no larger one comes."""

from dataclasses import replace
from pathlib import Path

import torch

from engine.cli.session import Session
from engine.loading.learned import LearnedState
from engine.loading.planning import AUTO_WIDE_ROOM, Question, needs_of, plan_pair
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.shape import model_sizes
from engine.protocol.messages import ChatMessage
from engine.protocol.options import AUTO_ROOM, GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Method
from engine.speculation.method_choice import ChosenMethod, MethodInputs, strategy_for
from engine.speculation.methods.acceptance_rates import AcceptanceCounts
from engine.weights.planning.machine import GIB, Memory
from engine.weights.planning.usual_rates import GPU_RATES
from tests.campaigns.extent import choose
from tests.engine.speculation.simulation import Machine, Named
from tests.engine.tiny_models import tiny_model

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def saved(folder: Path) -> Checkpoint:
    tiny_model("llama", dtype=torch.bfloat16, vocab_size=50_000).save_pretrained(folder)
    return open_checkpoint(str(folder))


def test_an_automatic_budget_keeps_room_for_more_than_the_plan_counts_with(tmp_path: Path) -> None:
    model = saved(tmp_path)
    chosen, automatic = (plan_pair(model, model, CPU, Question(context_tokens=64, budget=size)) for size in (64, 0))
    assert (chosen.largest_tree, automatic.largest_tree) == (64, AUTO_ROOM)
    assert automatic.forecast.tokens_per_pass == chosen.forecast.tokens_per_pass
    shape = needs_of(model, model_sizes(model), "auto", CPU).shape
    rows = AUTO_ROOM + 1
    assert automatic.bytes.buffers == shape.pass_bytes(rows, 64 + 1025, logit_rows=rows) > chosen.bytes.buffers


def test_without_a_draft_room_is_kept_for_what_the_text_suggests(tmp_path: Path) -> None:
    assert plan_pair(saved(tmp_path), None, CPU, Question(context_tokens=64)).largest_tree == 64


def test_weights_that_move_over_a_slow_link_get_room_for_the_largest_trees(tmp_path: Path) -> None:
    model = saved(tmp_path)
    resident = Memory(64 * GIB, vram_free=8 * GIB, has_gpu=True)
    question = Question("bfloat16", context_tokens=64, memory=resident, rates=replace(GPU_RATES, link=1e-6))
    at_home = plan_pair(model, model, GPU, question)
    assert (at_home.verdict, at_home.largest_tree) == ("device", AUTO_ROOM)
    from_ram = replace(question, override=replace(question.override, place="ram"))
    assert plan_pair(model, model, GPU, from_ram).largest_tree == AUTO_WIDE_ROOM
    fast = replace(from_ram, rates=replace(GPU_RATES, link=1e6, tflops=1e-6))
    assert plan_pair(model, model, GPU, fast).largest_tree == AUTO_ROOM, "computing so many rows would take longer"


def test_no_automatic_choice_is_larger_than_the_room_that_was_kept() -> None:
    methods: list[Method] = [Named("specexec")]
    inputs = MethodInputs(None, (), 0, AcceptanceCounts(), LearnedState, largest_tree=24)  # type: ignore[arg-type]
    strategy = strategy_for(ChosenMethod(methods[0], GenerateOptions()), inputs, 64)
    machine = Machine(lambda rows: 1.0, 0.001)
    sizes = []
    strategy.prefill([0])
    for number in range(40):
        choice = strategy.choose([0, 0], 100)
        sizes.append(choice.budget)
        strategy.learn(machine.round(choice, number))
    assert max(sizes) == 24


def test_an_engine_that_keeps_room_for_eight_nodes_never_grows_more_by_itself(tmp_path: Path) -> None:
    session = Session(LoadOptions(budget=8, context_tokens=256, cache_dir=str(tmp_path)), quiet=True)
    try:
        prompt = session.engine.prompt([ChatMessage("user", "Tell me about trees.")])
        options = GenerateOptions(
            SamplingOptions(), SpeculationOptions(), max_new_tokens=choose(30, 60), ignore_eos=True
        )
        assert max(event.budget for event in session.collect(prompt, options).rounds) == 8
    finally:
        session.engine.close()
