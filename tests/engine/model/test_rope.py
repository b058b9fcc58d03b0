"""Frequencies that depend on the length: every text is what transformers generates, in pieces and trees of any size."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from engine.errors import Cancelled
from engine.model.context import Context, SharedContext
from engine.model.network import Network
from engine.model.rope import READ_AGAIN
from engine.protocol.messages import Round
from engine.protocol.options import GenerateOptions, LoadOptions, Place, SpeculationOptions
from engine.text.prompt import Prompt
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import noisy_copy, random_prompt, write
from tests.engine.test_estimate import loaded, with_tokenizer
from tests.engine.tiny_models import tiny_model, tiny_network

ORIGINAL = 24
NEW = 12
SHORT, LONG = [1.0 + 0.05 * index for index in range(8)], [1.5 + 0.4 * index for index in range(8)]
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": SHORT, "long_factor": LONG}

# `phi3` reads all tokens again at the switch, the others go on; the one by layers turns sliding layers otherwise.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "phi3, longrope": (
        "phi3",
        {"rope_parameters": LONGROPE, "original_max_position_embeddings": ORIGINAL, "max_position_embeddings": 256},
    ),
    "llama, longrope": (
        "llama",
        {
            "rope_parameters": {**LONGROPE, "original_max_position_embeddings": ORIGINAL, "factor": 8.0},
            "max_position_embeddings": 256,
        },
    ),
    "llama, dynamic": (
        "llama",
        {
            "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4},
            "max_position_embeddings": ORIGINAL,
        },
    ),
}
PROMPTS = choose((ORIGINAL - 9, ORIGINAL + 1), (ORIGINAL - 9, ORIGINAL, ORIGINAL + 1, ORIGINAL + 9))


def network(kind: str, **more: Any) -> Network:
    family, settings = KINDS[kind]
    return tiny_network(family, **settings, **more)


def generated(kind: str, prompt: Sequence[int]) -> list[int]:
    """What transformers writes, by a model that has read nothing before; no near tie decides it."""
    return _generated(kind, tuple(prompt))


@cache
def _generated(kind: str, prompt: tuple[int, ...]) -> list[int]:
    family, settings = KINDS[kind]
    reference = tiny_model(family, **settings).generate(
        torch.tensor([list(prompt)]), max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0,
        output_scores=True, return_dict_in_generate=True,
    )  # fmt: skip
    top = torch.cat(reference.scores).topk(2).values
    assert float((top[:, 0] - top[:, 1]).min()) > 3e-4
    return [int(token) for token in reference.sequences[0, len(prompt) :]]


def require_text_of_transformers(kind: str, length: int) -> None:
    """For a prompt of so many tokens, in passes and trees of several sizes."""
    prompt = random_prompt(length, seed=length)
    expected = generated(kind, prompt)
    target, draft = network(kind), noisy_copy(KINDS[kind][0], **KINDS[kind][1])
    for rows in choose((3,), (1, 3, 1024)):
        context = Context(target, 128)
        context.prefill_rows = rows
        assert write(target, None, prompt, NEW, budget=0, context=context).tokens == expected, f"{rows} at a time"
    for budget in choose((64,), (1, 8, 64)):
        outcome = write(target, draft, prompt, NEW, budget)
        assert outcome.tokens == expected, f"a tree of {budget}"
    assert len(outcome.rounds) < NEW, "nothing was ever accepted, so nothing was tested"


PHIMOE = {**LONGROPE, "short_mscale": 1.1, "long_mscale": 1.3, "original_max_position_embeddings": ORIGINAL}


@torch.inference_mode()
def published(prompt: Sequence[int]) -> list[int]:
    """What the published PhiMoE writes: it turns all of a text by the factors and the scale of its length.

    The library's own takes the short factors for any length, so here it is handed the long ones as if they were short.
    """
    long = {**PHIMOE, "short_factor": LONG, "short_mscale": PHIMOE["long_mscale"]}
    short_model, long_model = (tiny_model("phimoe", rope_parameters=each) for each in (PHIMOE, long))
    text = list(prompt)
    for _ in range(NEW):
        model = long_model if len(text) > ORIGINAL else short_model
        best, next_best = model(torch.tensor([text]), use_cache=False).logits[0, -1].topk(2)
        assert float(best[0] - best[1]) > 3e-4
        text.append(int(next_best[0]))
    return text[len(prompt) :]


@pytest.mark.parametrize("length", PROMPTS)
def test_long_texts_of_phimoe_are_turned_by_the_long_factors(length: int) -> None:
    prompt = random_prompt(length, seed=length)
    target = tiny_network("phimoe", rope_parameters=PHIMOE)
    for budget in (0, 8):
        draft = noisy_copy("phimoe", rope_parameters=PHIMOE) if budget else None
        assert write(target, draft, prompt, NEW, budget).tokens == published(prompt), f"a tree of {budget}"


@pytest.mark.parametrize("length", PROMPTS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_text_is_that_of_transformers_across_the_switch(kind: str, length: int) -> None:
    require_text_of_transformers(kind, length)


def test_positions_may_have_an_axis_for_each_side_of_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of Qwen 3.5 have, whose text alone is read here."""
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4, "partial_rotary_factor": 1.0}
    own = {"rope_parameters": rope, "max_position_embeddings": ORIGINAL}
    monkeypatch.setitem(KINDS, "qwen3_5, dynamic", ("qwen3_5", own))
    require_text_of_transformers("qwen3_5, dynamic", ORIGINAL + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_turn_and_a_text_that_was_taken_back_are_as_if_read_afresh(kind: str) -> None:
    target, context = network(kind), Context(network(kind), 128)
    first = random_prompt(ORIGINAL - 6, seed=3)
    answer = write(target, target, first, NEW, budget=8, context=context).tokens
    assert context.length > ORIGINAL
    second = [*first, *answer, *random_prompt(4, seed=4)]
    shorter = [*first[:9], 50, 51]
    for prompt in (second, shorter, second, *choose((), (first,))):
        assert write(target, target, prompt, NEW, budget=8, context=context).tokens == generated(kind, prompt)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rewound_context_goes_on_as_one_that_never_read_more(kind: str) -> None:
    target = network(kind)
    long, short = random_prompt(ORIGINAL + 8, seed=5), ORIGINAL - 4
    context, fresh = Context(target, 128), Context(target, 128)
    context.prefill(long)
    context.rewind(short)
    fresh.prefill(long[:short])
    for token in long[short:]:
        torch.testing.assert_close(context.score([token], [-1]), fresh.score([token], [-1]), atol=1e-4, rtol=1e-4)
        context.keep([0])
        fresh.keep([0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_in_one_pass_is_embedded_as_in_many(kind: str) -> None:
    text = random_prompt(ORIGINAL + 8, seed=6)
    found = []
    for one_pass in (False, True):
        context = Context(network(kind), 128, one_pass=one_pass)
        context.prefill_rows = 8
        for length in (ORIGINAL - 8, len(text) - 1):
            context.prefill(text[:length])
        found.append(context.score(text[-1:], [-1]))
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


def test_what_is_kept_of_the_text_is_not_read_again_where_it_fits() -> None:
    target = network("phi3, longrope")
    context = Context(target, 128)
    context.prefill(random_prompt(8, seed=1))
    assert context.common(random_prompt(8, seed=1)) == 8
    assert context.common([*random_prompt(8, seed=1), *range(10, 20)]) == 8
    assert context.common([*random_prompt(8, seed=1), *range(10, 50)]) == 0, "turned by the short factors"


def test_a_reading_again_that_fails_is_made_up_for() -> None:
    """Stopped between two layers, with nodes of a search still pending."""
    target = network("phi3, longrope")
    countdown = [10**6]

    def between() -> None:
        countdown[0] -= 1
        if countdown[0] < 0:
            raise Cancelled

    stopped, smooth = Context(target, 128, between), Context(target, 128)
    for context in (stopped, smooth):
        context.prefill(random_prompt(ORIGINAL - 2, seed=2))
        context.score([5, 6, 7, 8], [-1, 0, 1, 2])
        context.keep([0, 1], [2, 3])  # the text is as long as the original now, and two nodes are left
    countdown[0] = 2
    with pytest.raises(Cancelled):
        stopped.score([9], [1])
    countdown[0] = 10**6
    assert stopped.length == ORIGINAL
    torch.testing.assert_close(stopped.score([9], [1]), smooth.score([9], [1]), atol=1e-4, rtol=1e-4)


def test_a_guest_of_the_cache_guesses_beyond_the_switch() -> None:
    """Drafting for itself: the host reads its text again, and the guest's guess is the host's own next token."""
    target = network("phi3, longrope")
    host = Context(target, 128)
    guest = SharedContext(network("phi3, longrope"), host)
    prompt = random_prompt(ORIGINAL, seed=6)
    host.prefill(prompt)
    guest.prefill(prompt)
    guessed = guest.score([11], [-1])
    torch.testing.assert_close(host.score([11], [-1]), guessed, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("place", "draft"), choose([("ssd", "self")], [("auto", "none"), ("ssd", "none"), ("ssd", "self")])
)
def test_an_engine_writes_the_same_wherever_its_layers_are(place: Place, draft: str, tmp_path: Path) -> None:
    settings = KINDS["phi3, longrope"][1]
    folder = with_tokenizer(tmp_path / "model", "phi3", **settings)
    prompt = random_prompt(ORIGINAL - 4, seed=8)
    reference = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    written = reference.generate(torch.tensor([prompt]), max_new_tokens=NEW, do_sample=False, eos_token_id=None)
    options = LoadOptions(str(folder), draft, place=place, device="cpu", weights="float32", cache_dir=str(tmp_path))
    engine = loaded(options)
    asked = GenerateOptions(speculation=SpeculationOptions("auto", budget=8), max_new_tokens=NEW, ignore_eos=True)
    rounds = [each for each in engine.generate(1, Prompt(tuple(prompt)), asked) if isinstance(each, Round)]
    engine.close()
    tokens = [said for each in rounds for said in (*(_tokens(each)[node] for node in each.accepted[1:]), each.bonus)]
    assert tokens == written[0, len(prompt) :].tolist()
    assert len(prompt) < ORIGINAL < len(prompt) + len(tokens)


def _tokens(event: Round) -> list[int]:
    return memoryview(event.tree.tokens).cast("i").tolist()


def test_models_whose_frequencies_stay_the_same_are_left_alone() -> None:
    for kind in ("default", "linear", "yarn", "llama3"):
        more = {"factor": 2.0} if kind != "default" else {}
        more |= {"original_max_position_embeddings": 64} if kind in ("yarn", "llama3") else {}
        more |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0} if kind == "llama3" else {}
        assert tiny_network("llama", rope_parameters={"rope_type": kind, "rope_theta": 1e4, **more}).rope is None


def test_every_family_that_reads_its_text_again_is_known() -> None:
    """Those whose generation throws the cache away at the length of the first training, told by their source."""
    models = Path(transformers.__file__).parent / "models"
    pattern = re.compile(r"original_max_position_embeddings:\s+past_key_values = None")
    found = {path.parent.name for path in models.glob("*/modeling_*.py") if pattern.search(path.read_text("utf-8"))}
    assert found == READ_AGAIN


def test_kinds_of_frequencies_that_depend_on_the_length_are_all_known() -> None:
    """transformers changes frequencies within a pass for these alone; a new one needs a look."""
    source = (Path(transformers.__file__).parent / "modeling_rope_utils.py").read_text("utf-8")
    wrapper = source[source.index("def wrapper(") : source.index("return wrapper")]
    assert re.findall(r"(?:if|elif) (.*):", wrapper) == ['"dynamic" in rope_type', 'rope_type == "longrope"']
