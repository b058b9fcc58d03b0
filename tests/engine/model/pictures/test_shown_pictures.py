"""Texts with pictures: the numbers of transformers' own models, however they are read, and trees behind them."""

import pytest
import torch
from torch import Tensor, nn

from engine.errors import Cancelled
from engine.model.context import Context
from engine.model.pictures.encoder import PictureEncoder
from engine.picture_tokens import is_row
from engine.protocol.pictures import PICTURE_FAMILIES
from tests.engine.model.pictures.shown_pictures import both, text
from tests.engine.picture_models import picture

TOLERANCE = 3e-4  # logits are of some 10, in float32
LAST = 3  # tokens that are scored behind the text


def logits_behind(context: Context, rows: list[int]) -> Tensor:
    """Of the last tokens of a text, whose others are read as a prompt."""
    context.prefill(rows[:-LAST])
    return context.score(rows[-LAST:], [-1, 0, 1])


def in_small_passes(context: Context) -> None:
    context.prefill_rows = 9


@pytest.mark.parametrize("kind", sorted(PICTURE_FAMILIES))
def test_a_text_with_pictures_has_the_logits_of_transformers(kind: str) -> None:
    its = both(kind)
    read, rows, pictures, written = text(its)
    expected = its.expected(read, written)[-LAST:]
    for one_pass, prepare in ((False, lambda _context: None), (False, in_small_passes), (True, in_small_passes)):
        context = its.context(rows, pictures, one_pass=one_pass)
        prepare(context)
        error = float((logits_behind(context, rows) - expected).abs().max())
        assert error < TOLERANCE, (one_pass, context.prefill_rows)
    nothing = Context(its.network, 512)
    assert float((logits_behind(nothing, rows) - expected).abs().max()) > 100 * TOLERANCE, "pictures change the text"


@pytest.mark.parametrize("kind", ["gemma3", "gemma4", "llava", "qwen3_5", "qwen3_vl"])
def test_trees_behind_pictures_are_scored_as_their_paths(kind: str) -> None:
    its = both(kind)
    _, rows, pictures, _ = text(its)
    tokens, parents = [50, 51, 52, 53, 54, 55], [-1, 0, 0, 1, 2, 2]
    tree = its.context(rows, pictures)
    tree.prefill(rows)
    found = tree.score(tokens, parents)
    for node in range(len(tokens)):
        path: list[int] = []
        above = node
        while above >= 0:
            path.insert(0, above)
            above = parents[above]
        alone = its.context(rows, pictures)
        alone.prefill([*rows, *(tokens[each] for each in path[:-1])])
        expected = alone.score([tokens[node]], [-1])[0]
        assert float((found[node] - expected).abs().max()) < TOLERANCE


def test_a_second_turn_reads_only_what_is_new_and_other_pictures_anew() -> None:
    its = both("qwen3_vl")
    _, rows, pictures, _ = text(its)
    context = its.context(rows, pictures)
    assert context.prefill(rows) == 0
    longer = [*rows, 60, 61]
    context.show(its.reader.shown(longer, pictures))
    assert context.prefill(longer) == len(rows)
    other = [token + (1 << 40) if is_row(token) else token for token in rows]
    assert context.common(other) == next(place for place, token in enumerate(rows) if is_row(token))


def test_a_picture_that_is_read_as_a_whole_is_never_cut() -> None:
    its = both("gemma3")
    _, rows, pictures, written = text(its)
    context = its.context(rows, pictures)
    begin = rows.index(written[0].rows[0])
    context.prefill(rows[: begin + 4])
    assert context.common(rows) == begin
    shown = its.reader.shown(rows, pictures)
    for size in (1, 5, 9, 11, 40):
        ends = shown.ends(rows, 0, size)
        assert ends[-1] == len(rows)
        assert ends == sorted(set(ends))
        for first in (rows.index(each.rows[0]) for each in written):
            assert not any(first < end < first + len(written[0].rows) for end in ends)


def test_a_stop_while_a_picture_is_encoded_ends_the_pass_and_leaves_nothing() -> None:
    its = both("llava")
    _, rows, pictures, _ = text(its)
    context = its.context(rows, pictures)
    own, its.reader._check = its.reader._check, stopped
    its.reader._features.clear()
    try:
        with pytest.raises(Cancelled):
            context.prefill(rows)
    finally:
        its.reader._check = own
    assert context.length == 0
    assert context.prefill(rows) == 0


def stopped() -> None:
    """What runs between layers where a person pressed Stop."""
    raise Cancelled


def test_features_are_kept_for_the_next_question_and_weights_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    its = both("llava")
    _, rows, pictures, _ = text(its)
    its.context(rows, pictures).prefill(rows)
    monkeypatch.setattr(its.reader._encoder, "loaded", lambda *_: pytest.fail("it was encoded before"))
    its.context(rows, pictures).prefill(rows)
    assert all(parameter.is_meta for parameter in its.reader._encoder._model.parameters())


def test_the_oldest_features_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    its = both("llava")
    _, rows, pictures, written = text(its)
    its.context(rows, pictures).prefill(rows)
    monkeypatch.setattr(its.reader, "_most_bytes", 1)
    firsts = [each.rows[0] for each in written]
    files = {its_rows.rows[0]: each.data for its_rows, each in zip(written, pictures, strict=True)}
    its.reader._features_of(firsts[:1], files, [])
    assert list(its.reader._features) == firsts[:1]


@pytest.mark.parametrize("kind", ["gemma3", "internvl", "qwen3_vl"])
def test_one_layer_of_the_encoder_is_in_memory_at_a_time(kind: str) -> None:
    its = both(kind)
    encoder, seen = its.reader._encoder, list[int]()
    lists = [each for each in encoder._model.modules() if isinstance(each, nn.ModuleList)]
    own = [layer for each in lists for layer in each if not is_of_text(encoder, layer)]

    def look() -> None:
        seen.append(sum(not weight.is_meta for layer in own for weight in layer.parameters()))

    given = its.reader._read(picture(5).data)[1]
    with encoder.loaded(torch.device("cpu"), look) as encode:
        encode(given)
        encode(given)
    assert len(seen) == 2 * len(own) > 2
    assert set(seen) == {0}


def is_of_text(encoder: PictureEncoder, layer: nn.Module) -> bool:
    """Whether a layer is one of the language model's."""
    return any(layer is each for each in encoder._model.get_decoder().modules())
