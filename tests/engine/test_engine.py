"""The engine with the embedded pair: what a conversation yields, from loading to the last event."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine, load
from engine.errors import Cancellation, InputError
from engine.loading.pair import open_pair
from engine.observing.watcher import Watcher
from engine.protocol.messages import (
    ChatMessage,
    Count,
    Event,
    Finished,
    Loaded,
    Loading,
    Prefilled,
    Reading,
    Round,
    Statistics,
)
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.text.prompt import Prompt, count_tokens
from tests.campaigns.extent import choose

LENGTH = choose(44, 120)
PENALISED = {"temperature": 0.8, "seed": 3, "presence_penalty": 0.5, "dry_multiplier": 0.8, "xtc_probability": 0.5}
STORY = (ChatMessage("user", "Tell me a story about a dragon."),)


class Loads:
    """An engine that stays loaded for the module, and the events of its loading."""

    def __init__(self) -> None:
        self.cancellation = Cancellation()
        self.cancellation.begin(1)
        self.events: list[Event] = []
        steps = load(1, open_pair(LoadOptions(weights="float32")), self.cancellation)
        while True:
            try:
                self.events.append(next(steps))
            except StopIteration as end:
                self.engine: Engine = end.value
                return


@pytest.fixture(scope="module")
def loads() -> Loads:
    return Loads()


@pytest.fixture(scope="module")
def story(loads: Loads) -> str:
    """What SpecExec writes, greedily."""
    return text_of(answer(loads, STORY, method("specexec")))


def answer(loads: Loads, chat: tuple[ChatMessage, ...], options: GenerateOptions, request: int = 1) -> list[Event]:
    loads.cancellation.begin(request)
    return list(loads.engine.generate(request, loads.engine.prompt(chat), options))


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Round | Finished))


def statistics_of(events: list[Event]) -> Statistics:
    assert isinstance(events[-1], Finished)
    assert events[-1].statistics
    return events[-1].statistics


def method(name: str, **sampling: float) -> GenerateOptions:
    return GenerateOptions(
        SamplingOptions(**sampling),  # type: ignore[arg-type]
        SpeculationOptions(method=name),
        max_new_tokens=LENGTH,
    )


def test_loading_tells_its_steps_and_what_was_loaded(loads: Loads) -> None:
    kinds = [type(event) for event in loads.events]
    assert set(kinds[:-2]) == {Loading}
    assert kinds[-2:] == [Loaded, Finished]
    loaded = loads.events[-2]
    assert isinstance(loaded, Loaded)
    assert loaded.draft
    assert loaded.target.parameters > loaded.draft.parameters > 0
    assert (loaded.target.family, loaded.target.weights, loaded.target.device) == ("llama", "float32", "cpu")


def test_an_answer_is_prefilled_then_rounds_then_one_ending(loads: Loads) -> None:
    options = method("specexec")
    events = answer(loads, STORY, replace(options, speculation=replace(options.speculation, budget=64)))
    kinds = [type(event) for event in events]
    assert kinds[0] is Prefilled
    assert set(kinds[1:-1]) == {Round}
    statistics = statistics_of(events)
    rounds = [event for event in events if isinstance(event, Round)]
    assert statistics.passes == len(rounds)
    assert statistics.new_tokens == sum(event.new_tokens for event in rounds)
    assert statistics.tokens_per_pass > 4, "the embedded draft hardly ever agrees with its target"
    assert statistics.first_token_seconds > 0
    seconds = statistics.seconds
    assert seconds.draft + seconds.target + seconds.other == pytest.approx(seconds.decode)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "top_p": 0.9, "seed": 11}])
def test_speculation_does_not_change_the_text(loads: Loads, sampling: dict[str, float]) -> None:
    texts = {name: text_of(answer(loads, STORY, method(name, **sampling))) for name in ("none", "specexec")}
    assert texts["none"] == texts["specexec"]
    assert len(texts["none"]) > 100


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.6, "seed": 5, "xtc_probability": 0.5}])
def test_dry_keeps_an_answer_from_repeating_itself_with_and_without_a_tree(
    loads: Loads, sampling: dict[str, float]
) -> None:
    chat = (ChatMessage("user", "Hi"),)
    texts = {}
    for multiplier in (0.0, 3.0):
        for name in ("none", "specexec"):
            asked = method(name, dry_multiplier=multiplier, dry_sequence_breakers=("*",), **sampling)  # type: ignore[arg-type]
            events = answer(loads, chat, replace(asked, min_new_tokens=40, max_new_tokens=60))
            texts[multiplier, name] = text_of(events)
    assert texts[3.0, "none"] == texts[3.0, "specexec"] != texts[0.0, "none"]
    if not sampling:
        assert texts[0.0, "none"].count("What would you like to talk about?") > 1
        assert texts[3.0, "none"].count("What would you like to talk about?") == 1


@pytest.mark.parametrize("name", ["none", "specexec", "sequoia"])
def test_no_end_token_comes_before_so_many_others(loads: Loads, name: str) -> None:
    chat = (ChatMessage("user", "What is 2+2?"),)
    short = answer(loads, chat, method(name))
    assert statistics_of(short).new_tokens < 20
    longer = answer(loads, chat, replace(method(name), min_new_tokens=30))
    assert statistics_of(longer).new_tokens > 30, "the end token comes behind them"
    assert text_of(longer).startswith(text_of(short))
    plain = answer(loads, chat, replace(method("none"), min_new_tokens=30))
    assert text_of(longer) == text_of(plain)


def test_a_second_turn_reads_only_what_is_new(loads: Loads) -> None:
    first = answer(loads, STORY, method("specexec"))
    chat = (*STORY, ChatMessage("assistant", text_of(first)), ChatMessage("user", "Thank you!"))
    prefilled = answer(loads, chat, method("specexec"))[0]
    assert isinstance(prefilled, Prefilled)
    assert prefilled.cached_tokens >= statistics_of(first).prompt_tokens + statistics_of(first).new_tokens - 2
    assert prefilled.prompt_tokens - prefilled.cached_tokens < 15


def test_a_stop_string_ends_the_answer_and_is_not_shown(loads: Loads, story: str) -> None:
    stop = story[40:52]
    events = answer(loads, STORY, replace(method("specexec"), stop=(stop,)))
    assert text_of(events) == story[: story.index(stop)]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


def test_a_limit_ends_the_answer_as_too_long(loads: Loads) -> None:
    events = answer(loads, STORY, replace(method("specexec"), max_new_tokens=17))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "length"
    assert statistics_of(events).new_tokens == 17


def test_a_cancelled_answer_finishes_with_what_it_has_and_the_next_is_whole(loads: Loads, story: str) -> None:
    loads.cancellation.begin(20)
    events: list[Event] = []
    for event in loads.engine.generate(20, loads.engine.prompt(STORY), method("specexec")):
        events.append(event)
        if isinstance(event, Round) and event.index == 2:
            loads.cancellation.cancel(20)
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "cancelled"
    assert statistics_of(events).passes == 3
    assert story.startswith(text_of(events))
    assert text_of(answer(loads, STORY, method("specexec"), request=21)) == story


def test_a_request_cancelled_before_it_began_still_has_its_ending(loads: Loads) -> None:
    loads.cancellation.cancel(30)
    loads.engine.target.rewind(0)
    events = answer(loads, STORY, method("specexec"), request=30)
    assert [type(event) for event in events] == [Finished]


def test_a_prompt_that_fills_the_context_is_refused_with_both_figures(loads: Loads) -> None:
    with pytest.raises(InputError, match=r"3,000 tokens, and the context holds 2,048"):
        list(loads.engine.generate(40, Prompt((5,) * 3000), GenerateOptions()))


def test_an_answer_never_outgrows_the_context(loads: Loads) -> None:
    loads.cancellation.begin(41)
    prompt = Prompt((*loads.engine.prompt(STORY).tokens, *([40] * 2020)))
    options = replace(method("specexec"), ignore_eos=True, max_new_tokens=500)
    events = list(loads.engine.generate(41, prompt, options))
    assert statistics_of(events).new_tokens == 2048 - len(prompt.tokens)


def test_without_a_draft_only_the_text_suggests_and_it_says_why() -> None:
    cancellation = Cancellation()
    cancellation.begin(1)
    steps = load(1, open_pair(LoadOptions(draft="none")), cancellation)
    engine: Engine | None = None
    while engine is None:
        try:
            next(steps)
        except StopIteration as end:
            engine = end.value
    for lookup, name in ((True, "lookup"), (False, "none")):
        options = replace(method("auto"), speculation=SpeculationOptions(lookup=lookup), max_new_tokens=5)
        events = list(engine.generate(1, engine.prompt(STORY), options))
        assert statistics_of(events).method == name
        assert "draft" in statistics_of(events).note
    with pytest.raises(InputError, match="needs a draft model"):
        list(engine.generate(1, engine.prompt(STORY), method("specexec")))


def load_and_answer(options: LoadOptions, generate: GenerateOptions) -> tuple[list[Event], list[Event]]:
    """The events of loading a pair, and those of an answer by it."""
    cancellation = Cancellation()
    cancellation.begin(1)
    loading: list[Event] = []
    steps = load(1, open_pair(options), cancellation)
    while True:
        try:
            loading.append(next(steps))
        except StopIteration as end:
            engine: Engine = end.value
            break
    events = list(engine.generate(1, engine.prompt(STORY), generate))
    engine.close()
    return loading, events


@pytest.mark.parametrize("overlap", choose([True], [True, False]))
def test_layers_from_ssd_give_the_same_text_whether_the_draft_rests_meanwhile_or_not(story: str, overlap: bool) -> None:
    """The embedded weights are bfloat16 and run in float32: they are cast on arrival."""
    options = LoadOptions(weights="float32", place="ssd", overlap=overlap)
    loading, events = load_and_answer(options, method("specexec"))
    loaded = next(event for event in loading if isinstance(event, Loaded))
    assert loaded.tiers == ("ssd",) * loaded.target.layers
    assert text_of(events) == story
    statistics = statistics_of(events)
    assert statistics.bytes_streamed > 0
    assert overlap or statistics.seconds.hidden_draft == 0  # with it, only if a layer had to be awaited


def test_compressed_weights_are_prepared_once(tmp_path: Path) -> None:
    options = LoadOptions(weights="nf4", place="ssd", cache_dir=str(tmp_path))
    short = replace(method("specexec"), max_new_tokens=4)
    first, answered = load_and_answer(options, short)
    again, answered_again = load_and_answer(options, short)
    for loading, prepared in ((first, True), (again, False)):
        stages = [event.stage for event in loading if isinstance(event, Loading)]
        assert any("left" in stage for stage in stages) == prepared
    assert text_of(answered) == text_of(answered_again) != ""
    assert next(event for event in again if isinstance(event, Loaded)).target.weights == "nf4"


def test_a_model_that_does_not_fit_is_refused_with_figures_and_can_be_forced() -> None:
    tight = LoadOptions(place="device", ram_limit_bytes=20 << 20)
    with pytest.raises(InputError, match=r"does not fit here\. .* would be needed .*, but 20\.0 MiB may be used"):
        load_and_answer(tight, method("none"))
    _, events = load_and_answer(replace(tight, force=True), replace(method("none"), max_new_tokens=3))
    assert statistics_of(events).new_tokens == 3


@pytest.mark.parametrize(
    ("name", "sampling"),
    choose([("specexec", PENALISED)], [(name, how) for name in ("specexec", "none") for how in ({}, PENALISED)]),
)
def test_an_answer_that_was_cut_off_goes_on_as_if_it_had_not_been(
    loads: Loads, name: str, sampling: dict[str, float]
) -> None:
    whole = answer(loads, STORY, method(name, **sampling), 50)
    first = answer(loads, STORY, replace(method(name, **sampling), max_new_tokens=20), 50)
    begun = (*STORY, ChatMessage("assistant", text_of(first)))
    rest = answer(loads, begun, replace(method(name, **sampling), max_new_tokens=LENGTH - 20), 50)
    assert text_of(first) != "" != text_of(rest)
    assert text_of(first) + text_of(rest) == text_of(whole)
    prefilled = next(event for event in rest if isinstance(event, Prefilled))
    assert prefilled.cached_tokens > statistics_of(first).prompt_tokens - 2, "what was read is not read again"


def test_an_answer_begins_as_it_is_told_to(loads: Loads) -> None:
    begun = (*STORY, ChatMessage("assistant", "The little dragon said: “No,"))
    events = answer(loads, begun, method("specexec"), 50)
    assert text_of(events)
    assert not text_of(events).startswith("The little dragon said")


def test_tokens_are_counted_as_they_will_be_read(loads: Loads) -> None:
    tokenizer, context_tokens = loads.engine.tokenizer, loads.engine.context_tokens
    write = loads.engine.write_pictures
    counted = count_tokens(tokenizer, Count(7, STORY, ("Tell me", "")), context_tokens, write)
    assert (counted.id, counted.context_tokens) == (7, loads.engine.describe(1, 0.0).context_tokens)
    assert counted.tokens == len(loads.engine.prompt(STORY).tokens)
    assert counted.texts[0] > 0 == counted.texts[1]
    assert count_tokens(tokenizer, Count(8, ()), context_tokens, write).tokens == 0


def test_every_round_says_which_of_its_nodes_write_nothing(loads: Loads) -> None:
    speculation = SpeculationOptions(method="specexec", budget=64)
    events = answer(loads, STORY, GenerateOptions(speculation=speculation, max_new_tokens=400), request=70)
    tokenizer = loads.engine.tokenizer
    given = [event.tree for event in events if isinstance(event, Round)]
    for tree in given:
        tokens = memoryview(tree.tokens).cast("i")
        assert tree.silent == tuple(node for node, token in enumerate(tokens) if tokenizer.is_silent(token))
    assert {tree.pieces[node] for tree in given for node in tree.silent or ()}, "the end of the story was guessed"


@pytest.mark.parametrize("rows", [16, 1024])
def test_how_much_of_a_prompt_was_read_grows_over_passes_and_layers(
    loads: Loads, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.observing.watcher.LONG_READING", 0.0)
    monkeypatch.setattr("engine.observing.watcher.READ_APART", 0.0)
    target = loads.engine._loaded.target
    monkeypatch.setattr(target, "prefill_rows", rows)
    loads.cancellation.begin(90_000)  # behind those that other tests cancelled
    for begin in ("Tell me", "And now"):  # of the second the beginning is known
        told: list[Event] = []
        words = f"{begin} of a fox and a bear and of the little house where they all lived, far behind the old hill."
        prompt = loads.engine.prompt((*STORY, ChatMessage("user", words)))
        options = replace(method("none"), max_new_tokens=2)
        events = loads.engine.generate(90_000, prompt, options, Watcher(told.append))
        assert isinstance(next(events), Prefilled)
        events.close()  # type: ignore[attr-defined]
        parts = [each.part for each in told if isinstance(each, Reading)]
        assert parts == sorted(parts)
        assert parts[0] == 0.0
        assert parts[-1] == pytest.approx(1.0, abs=0.3 if rows > 16 else 0.1)
        assert len(set(parts)) >= 8
