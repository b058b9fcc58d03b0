"""Which errors mean that memory ran out, and what is said about it."""

import errno
import gc
import sys
import weakref

import pytest
import torch

from engine.errors import Cancelled, InputError, OutOfMemory
from engine.loading.out_of_memory import give_back_memory, let_gpu_segments_grow, out_of_memory_of
from engine.serving.worker import failed_by

CUDA = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.12 GiB is free."
)


def allocator_error() -> BaseException:
    """What torch really raises on the host."""
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60, dtype=torch.uint8)
    return raised.value


@pytest.mark.parametrize(
    ("error", "of_gpu", "asked"),
    [
        (MemoryError(), False, 0),
        (MemoryError("The system refused to pin memory for the GPU (CUDA error 2)."), False, 0),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), False, 0),
        (torch.OutOfMemoryError(CUDA), True, 5 << 29),
        (RuntimeError("CUDA error: out of memory"), True, 0),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True, 0),
        (RuntimeError("Error out of memory at line 380 in file /src/csrc/ops.cu"), False, 0),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes."), False, 4096),
        (RuntimeError("could not create a primitive"), False, 0),  # oneDNN, within a limit of address space
    ],
)
def test_all_that_says_so_is_recognised(error: Exception, of_gpu: bool, asked: int) -> None:
    found = out_of_memory_of(error, "a pass over 65 tokens")
    assert found
    assert (found.of_gpu, found.asked_bytes) == (of_gpu, asked)
    assert found.message.startswith("Memory ran out during a pass over 65 tokens: ")
    assert found.message.endswith(" of RAM were free.")
    assert ("GPU memory" in found.message) == of_gpu
    assert found.hint


def test_the_hosts_own_allocator_is_understood_to_the_byte() -> None:
    found = out_of_memory_of(allocator_error(), "loading")
    assert found
    assert found.asked_bytes == 1 << 60
    assert "1073741824.0 GiB of RAM were asked for" in found.message


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("shapes cannot be multiplied"),
        OSError(errno.ENOENT, "gone"),
        InputError("no"),
        Cancelled(),
        KeyError("out of memory"),
    ],
)
def test_nothing_else_is(error: Exception) -> None:
    assert out_of_memory_of(error, "loading") is None


def test_what_is_in_words_already_stays_as_it_is() -> None:
    found = OutOfMemory("Memory ran out during a pass.")
    assert out_of_memory_of(found, "something else") is found


def test_the_application_reads_the_words_and_the_log_the_allocators_own(capsys: pytest.CaptureFixture[str]) -> None:
    failed = failed_by(7, torch.OutOfMemoryError(CUDA))
    assert failed.id == 7
    assert failed.message.startswith("Memory ran out during this request: 2.5 GiB of GPU memory were asked for; ")
    assert failed.hint
    assert "total capacity of 23.65 GiB" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "tells"), [(MemoryError(), True), (torch.OutOfMemoryError(CUDA), False)])
def test_on_windows_the_page_file_bounds_what_programs_get(
    error: Exception, tells: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "page file" not in str(out_of_memory_of(error, "loading"))
    monkeypatch.setattr("engine.loading.out_of_memory._free", lambda: "nothing was free")
    monkeypatch.setattr(sys, "platform", "win32")
    assert ("page file" in str(out_of_memory_of(error, "loading"))) == tells
    assert "page file" in failed_by(7, ImportError("[WinError 1455] The paging file is too small")).hint


def test_a_library_that_windows_cannot_load_is_a_sentence_about_what_to_install() -> None:
    """As torch words it: the number of the error, the system's own sentence, and the library."""
    words = '[WinError 1114] DLL fehlgeschlagen. Error loading "C:\\torch\\lib\\c10.dll" or one of its dependencies.'
    failed = failed_by(7, OSError(f"Traceback\n{words}"))
    assert failed.message == f"Windows cannot load a library that the engine needs: {words}"
    assert "vc_redist.x64.exe" in failed.hint
    blocked = OSError("[WinError 4551] Eine Richtlinie hat diese Datei blockiert. Error loading c10_cuda.dll")
    assert failed_by(7, blocked).hint.startswith("Smart App Control")
    assert "vc_redist" not in failed_by(7, OSError("[WinError 5] Access is denied")).hint


def test_cycles_are_given_back() -> None:
    class Layer:
        pass

    layer = Layer()
    layer.itself = layer  # type: ignore[attr-defined]
    alive = weakref.ref(layer)
    gc.disable()
    try:
        del layer
        assert alive() is not None
        give_back_memory()
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.gpu
def test_a_gpu_that_is_asked_for_too_much_says_how_much_was_free() -> None:
    with pytest.raises(torch.OutOfMemoryError) as raised:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    found = out_of_memory_of(raised.value, "loading")
    assert found
    assert (found.of_gpu, found.asked_bytes) == (True, 1 << 50)
    assert "GiB of GPU memory and " in found.message


@pytest.mark.parametrize(
    ("platform", "before", "after"),
    [
        ("linux", {}, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ("linux", {"PYTORCH_ALLOC_CONF": ""}, {"PYTORCH_ALLOC_CONF": ""}),
        ("linux", {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}, {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}),
        ("linux", {"PYTORCH_HIP_ALLOC_CONF": "backend:native"}, {"PYTORCH_HIP_ALLOC_CONF": "backend:native"}),
        ("win32", {}, {}),
        ("darwin", {}, {}),
    ],
)
def test_segments_grow_where_torch_can_and_nobody_decided_otherwise(
    platform: str, before: dict[str, str], after: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    environment = dict(before)
    let_gpu_segments_grow(environment, "6.8.0-60-generic")
    assert environment == after


@pytest.mark.parametrize("release", ["5.15.167.4-microsoft-standard-WSL2", "4.4.0-19041-Microsoft"])
def test_no_segments_grow_on_linux_within_windows(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    environment: dict[str, str] = {}
    let_gpu_segments_grow(environment, release)
    assert not environment
