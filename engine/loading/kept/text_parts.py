"""A text of a context as parts that follow each other, of which each holds what came behind the one before."""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from engine.loading.kept.part_file import PartFile, Section, SectionReader, write_part
from engine.model.context import same_tokens
from engine.model.passes.kept_text import KeptText
from engine.model.passes.tree_cache import SLOT_DIMENSION
from engine.model.rope import TurnedText
from engine.model.state.state_cache import KeptStates, Snapshot
from engine.model.state.state_layer import LayerState

TEXT, HIDDEN = "text", "hidden"
MOST_STATES = 1 << 16  # layers that keep one; a file that tells of more is none of ours


def save(
    path: Path, kept: KeptText, behind: "SavedText | None", about: Mapping[str, Any], check: Callable[[], None]
) -> PartFile:
    """Write what `kept` has behind `behind`, with which it begins, all of it without one; else as `write_part`.

    Tensors may lie anywhere, such as in the context itself: they are copied to the host one layer at a time.
    """
    begin = behind.length if behind else 0
    sections: dict[str, Section] = {TEXT: {"tokens": torch.tensor(kept.tokens[begin:], dtype=torch.int64)}}
    for index, slots in enumerate(kept.slots):
        sections[_slots_name(index)] = {name: _behind(begin, name, part) for name, part in slots.items()}
    if kept.hidden is not None:
        sections[HIDDEN] = {"rows": kept.hidden[begin:]}
    told: dict[str, Any] = {"begin": begin, "end": len(kept.tokens), "before": behind.digest if behind else ""}
    told["layers"] = len(sections) - 1 - (kept.hidden is not None)
    if kept.turned is not None:
        told["anchor"] = kept.turned.anchor
        sections[TEXT] = {**sections[TEXT], "regimes": torch.tensor(kept.turned.regimes, dtype=torch.int64)}
    if kept.states is not None:
        snapshots = [each.length for each in kept.states.snapshots]
        told["states"] = {
            "root": kept.states.root.length,
            "snapshots": snapshots,
            "behind_prompt": kept.states.behind_prompt,
            "layers": len(kept.states.root.layers),
        }
        known: Collection[int] = behind.snapshots if behind else ()
        for each in (*kept.states.snapshots, kept.states.root):
            if each.length not in known:
                sections[_state_name(each.length)] = _state_section(each)
    return write_part(path, sections, {**about, **told}, check)


@dataclass(frozen=True, slots=True)
class SavedText:
    """Parts that fit together, first to last.

    A part may begin before the one behind which it was written ends: a conversation went on in another way there.
    `ends`: of every part, where the next one begins; of the last, where it ends itself. `outline`: all but what takes
    room, which is enough for `Context.common_with`.
    """

    parts: tuple[PartFile, ...]
    ends: tuple[int, ...]
    outline: KeptText

    @property
    def length(self) -> int:
        """Tokens in all parts."""
        return self.ends[-1]

    @property
    def digest(self) -> str:
        """Of the last part, which names the one before."""
        return self.parts[-1].digest

    @property
    def nbytes(self) -> int:
        """What all parts take."""
        return sum(part.nbytes for part in self.parts)

    @property
    def snapshots(self) -> dict[int, PartFile]:
        """By length, which part holds the states of a network there."""
        ends = zip(self.parts, self.ends, strict=True)
        return {length: part for part, end in ends for length in _state_lengths(part) if length <= end}

    def cut(self, length: int) -> "SavedText":
        """Its first `length` tokens, at least one."""
        parts = tuple(part for part in self.parts if part.about["begin"] < length)
        return SavedText(parts, (*self.ends[: len(parts) - 1], length), self.outline)

    def common_beginning(self, kept: KeptText) -> int:
        """How many tokens of `kept` are here, number by number: others were read again, perhaps in other passes.

        Those behind the last length that states could be gone back to, or those whose rotary embedding is another now.
        """
        own, count = self.outline, same_tokens(self.outline.tokens, kept.tokens)
        if own.turned is not None and kept.turned is not None:
            count = min(count, same_tokens(own.turned.regimes, kept.turned.regimes))
        return own.states.nearest(count) if own.states else count

    @contextmanager
    def opened(self, length: int) -> Iterator[KeptText]:
        """The text for `Context.restore` of its first `length` tokens, whose slots are read while they are asked for.

        Raises `UnusableText` where a file is damaged or gone, then or while it is read.
        """
        with ExitStack() as stack:
            readers = {part.path: stack.enter_context(closing(part.reader())) for part in self.parts}
            ranges = [
                _Range(readers[part.path], end - part.about["begin"])
                for part, end in zip(self.parts, self.ends, strict=True)
                if part.about["begin"] < length
            ]
            hidden = None
            if HIDDEN in self.parts[0].sections:
                hidden = torch.cat([each.reader.read(HIDDEN)["rows"][: each.count] for each in ranges])
            slots = _read_ahead(ranges, int(self.parts[0].about["layers"]))
            stack.callback(slots.close)
            yield replace(self.outline, slots=slots, hidden=hidden, states=self._states(readers, length))

    def _states(self, readers: Mapping[Path, SectionReader], length: int) -> KeptStates | None:
        """With what lies at `length` or before it alone; the other lengths are told without their numbers."""
        kept, where = self.outline.states, self.snapshots
        if kept is None:
            return None

        def filled(each: Snapshot) -> Snapshot:
            if each.length > length:
                return each
            found = readers[where[each.length].path].read(_state_name(each.length))
            return Snapshot(each.length, _layer_states(found, len(each.layers)))

        return replace(kept, root=filled(kept.root), snapshots=tuple(filled(each) for each in kept.snapshots))


@dataclass(frozen=True, slots=True)
class _Range:
    """The first `count` slots of a part."""

    reader: SectionReader
    count: int

    def slots(self, index: int) -> Section:
        found = self.reader.read(_slots_name(index))
        return {name: part.narrow(SLOT_DIMENSION[name], 0, self.count) for name, part in found.items()}


def saved_text(parts: Sequence[PartFile]) -> SavedText | None:
    """The parts that follow each other from the first on; None where there is no first one.

    Raises `UnusableText` for a part whose own text is damaged, and one of `MALFORMED` for what nobody here has written.
    """
    fitting = list(parts[:1]) if parts and parts[0].about["begin"] == 0 else []
    for one, other in pairwise(parts if fitting else ()):
        begins = one.about["begin"] < other.about["begin"] <= one.about["end"]
        if other.about["before"] != one.digest or not begins:
            break
        fitting.append(other)
    if not fitting:
        return None
    ends = tuple(int(each) for each in (*(part.about["begin"] for part in fitting[1:]), fitting[-1].about["end"]))
    texts = [_text_of(part) for part in fitting]
    tokens: list[int] = []
    for text, end in zip(texts, ends, strict=True):
        tokens += _whole_numbers(text["tokens"])
        if len(tokens) < end:
            raise ValueError("fewer tokens than are told of")
        del tokens[end:]
    turned = None
    if "regimes" in texts[-1]:
        turned = TurnedText(int(fitting[-1].about["anchor"]), tuple(_whole_numbers(texts[-1]["regimes"])))
    saved = SavedText(tuple(fitting), ends, KeptText(tuple(tokens), (), None, None, turned))
    return replace(saved, outline=replace(saved.outline, states=_outline_of_states(saved)))


def _text_of(part: PartFile) -> dict[str, Tensor]:
    with closing(part.reader()) as reader:
        return reader.read(TEXT)


def _whole_numbers(row: Tensor) -> list[int]:
    if row.dtype != torch.int64 or row.dim() != 1:
        raise ValueError("no row of whole numbers")
    return cast("list[int]", row.tolist())


def _state_lengths(part: PartFile) -> list[int]:
    return [int(name.partition(".")[2]) for name in part.sections if name.startswith("states.")]


def _outline_of_states(text: SavedText) -> KeptStates | None:
    told, there = text.parts[-1].about.get("states"), text.snapshots
    if told is None:
        return None
    if told["layers"] > MOST_STATES:
        raise ValueError("no network has so many layers")
    empty = (LayerState(),) * int(told["layers"])
    snapshots = tuple(Snapshot(length, empty) for length in told["snapshots"] if length in there)
    return KeptStates(Snapshot(int(told["root"]), empty), snapshots, bool(told["behind_prompt"]))


def _read_ahead(ranges: Sequence[_Range], layers: int) -> Generator[Section, None, None]:
    """Every layer's slots of all parts, in order; the next layer is read while one is used."""

    def read(index: int) -> Section:
        found = [each.slots(index) for each in ranges]
        if len(found) == 1:
            return found[0]
        return {name: torch.cat([part[name] for part in found], SLOT_DIMENSION[name]) for name in found[0]}

    with ThreadPoolExecutor(1, "kept-texts") as pool:
        coming = pool.submit(read, 0) if layers else None
        for index in range(layers):
            assert coming is not None
            slots = coming.result()
            coming = pool.submit(read, index + 1) if index + 1 < layers else None
            yield slots


def _behind(begin: int, name: str, part: Tensor) -> Tensor:
    dimension = SLOT_DIMENSION[name]
    return part.narrow(dimension, begin, part.shape[dimension] - begin)


def _state_section(snapshot: Snapshot) -> Section:
    found: dict[str, Tensor] = {}
    for index, layer in enumerate(snapshot.layers):
        parts = {"state": layer.state, "tail": layer.tail}
        parts |= {f"further.{number}": part for number, part in layer.further.items()}
        found |= {f"{index}.{name}": part for name, part in parts.items() if part is not None}
    return found


def _layer_states(section: Section, count: int) -> tuple[LayerState, ...]:
    found = []
    for index in range(count):
        mark = f"{index}.further."
        further = {int(name.removeprefix(mark)): part for name, part in section.items() if name.startswith(mark)}
        found.append(LayerState(section.get(f"{index}.state"), section.get(f"{index}.tail"), further))
    return tuple(found)


def _slots_name(index: int) -> str:
    return f"slots.{index}"


def _state_name(length: int) -> str:
    return f"states.{length}"
