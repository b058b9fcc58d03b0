"""Chunks on several threads: all of them, once each, with the bits of one thread, and no setting of torch's changed."""

import threading
from collections.abc import Iterator

import pytest
import torch

from engine.gguf_header import TYPES
from engine.model.decoding.chunks import CHUNK_WEIGHTS, FEWEST, chunk_weights, in_chunks
from engine.model.decoding.workers import work_through
from engine.model.gguf.packed_blocks import Gguf
from tests.engine.model.gguf.test_block_decoders import blocks, same_bits

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _threads_restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def threads_of_a_new_thread() -> int:
    """How many torch uses in a thread that begins now."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


def test_each_thread_uses_one_of_its_own_and_others_keep_theirs() -> None:
    torch.set_num_threads(3)
    used: list[int] = []
    work_through(lambda _: used.append(torch.get_num_threads()), [slice(0, 1)] * 7, CPU)
    assert used == [1] * 7
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (3, 3)


def test_one_chunk_or_one_thread_is_worked_on_here() -> None:
    used: list[threading.Thread] = []
    torch.set_num_threads(1)
    work_through(lambda _: used.append(threading.current_thread()), [slice(0, 1)] * 2, CPU)
    torch.set_num_threads(2)
    work_through(lambda _: used.append(threading.current_thread()), [slice(0, 1)], CPU)
    work_through(lambda _: used.append(threading.current_thread()), [slice(0, 1)] * 2, torch.device("cuda"))
    assert used == [threading.current_thread()] * 5


@pytest.mark.parametrize("inference", [False, True])
def test_threads_change_no_bit(inference: bool) -> None:
    kind = next(kind for kind in TYPES if kind.name == "Q4_K")
    stored = blocks(kind, 1024, 256)
    with torch.inference_mode(inference):
        alone, together = (torch.empty(1024, 256, dtype=torch.bfloat16) for _ in range(2))
        torch.set_num_threads(1)
        Gguf((kind,)).decode({"0": stored}, alone)
        torch.set_num_threads(3)
        Gguf((kind,)).decode({"0": stored}, together)
        assert same_bits(alone, together)


def test_every_row_is_in_one_chunk_and_every_thread_has_one() -> None:
    torch.set_num_threads(4)
    seen: list[int] = []
    in_chunks(lambda rows: seen.extend(range(rows.start, rows.stop)), 1000, 1024, CPU, multiple=32)
    assert sorted(seen) == list(range(1000))
    assert chunk_weights(CPU, 1000 * 1024) == 256_000
    assert chunk_weights(CPU, 1 << 30) == CHUNK_WEIGHTS
    assert chunk_weights(CPU, 1000) == FEWEST
