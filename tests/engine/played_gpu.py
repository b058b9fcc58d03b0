"""A GPU, played by the host: tensors that only its own operations can touch, and a count of what the host waits for.

Tensors on it hold their numbers in host memory that nothing else reaches. They say that they are on `cuda:0`, so the
engine takes its ways for a GPU; an operation that mixes them with tensors of the host raises, as on a real one.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

import engine
from engine.model.decoding import compiled
from engine.model.formats import four_bits
from tests.engine.played_streams import COMPUTING, current_stream, runtime

ENGINE = str(Path(engine.__file__).parent)
CUDA = torch.device("cuda", 0)  # what its tensors say
PLAYED = torch.device("privateuseone", 0)  # what torch believes
HOST = torch.device("cpu")
CROSSING = {"copy_", "_to_copy", "copy"}  # operations that take tensors of both sides
COMPOSED = {"to", "item", "type_as"}  # of those above and below, where torch does not take them apart first
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}  # a GPU fetches host indices by itself
WAITED_FOR = {  # operations whose result, or its size, the host must know
    "_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim",
    "unique_consecutive", "bincount", "is_nonzero",
}  # fmt: skip


class WrongDeviceError(AssertionError):
    """Tensors of the host and of the device met."""


@dataclass
class PlayedGpu:
    """What was asked of the device: `syncs`, for which the host waits, and `uploads` of whole tensors.

    Both by operation, and in `places` by operation and the engine's line that asked.
    """

    syncs: Counter[str] = field(default_factory=Counter)
    uploads: Counter[str] = field(default_factory=Counter)
    places: Counter[tuple[str, str]] = field(default_factory=Counter)

    def forget(self) -> None:
        """Count from now on."""
        for counts in (self.syncs, self.uploads, self.places):
            counts.clear()

    def sync(self, name: str) -> None:
        """The host waits for the device."""
        self.syncs[name] += 1
        self.places[name, _asking()] += 1

    def upload(self, name: str) -> None:
        """A tensor of the host goes to the device."""
        self.uploads[name] += 1
        self.places[f"upload, {name}", _asking()] += 1


def _asking() -> str:
    """The innermost line of the engine that is being run."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.startswith(ENGINE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.removeprefix(ENGINE)}:{frame.f_lineno}" if frame else ""


_playing: list[PlayedGpu] = []  # the one that is played now, if any; threads share it


class OnDevice(Tensor):
    """A tensor of the played GPU; `host` are its numbers."""

    host: Tensor

    @staticmethod
    def __new__(cls, host: Tensor) -> "OnDevice":
        made: OnDevice = Tensor._make_wrapper_subclass(
            cls, host.size(), strides=host.stride(), storage_offset=host.storage_offset(), dtype=host.dtype,
            device=PLAYED,
        )  # fmt: skip
        made.host = host
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """As the engine sees it."""
        return CUDA

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        """As the engine sees it."""
        return True

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        del tensor_contents
        return f"OnDevice({self.host})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """In threads without the mode."""
        del types
        with torch._C.DisableTorchFunctionSubclass():
            return _call(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # as torch documents it
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """In threads without the mode."""
        del types
        return _run(func, args, kwargs or {})


class _Generator(torch.Generator):
    """Random numbers of the host's, for tensors of one side alone."""

    is_played = False

    def __new__(cls, device: str | torch.device = HOST) -> "_Generator":
        made = super().__new__(cls, HOST)  # type: ignore[call-arg]
        made.is_played = torch.device(device).type == CUDA.type
        return made

    def manual_seed(self, seed: int) -> "_Generator":
        """As ever, but for the type of what it returns."""
        super().manual_seed(seed)
        return self


class _Calls(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


@contextmanager
def played_gpu() -> Iterator[PlayedGpu]:
    """Play a GPU on this thread for as long as this lasts; its tensors may be used on others too."""
    _register()
    played = PlayedGpu()
    _playing.append(played)
    try:
        with ExitStack() as patches:
            for each in _patches():
                patches.enter_context(each)
            yield played
    finally:
        _playing.pop()
        four_bits.unpacking_for.cache_clear()


def _patches() -> list[AbstractContextManager[Any]]:
    """What else is played: CUDA's runtime; a machine without compilers or kernels for it; loading without threads."""
    return [
        patch.multiple(torch.cuda, synchronize=_synchronize, **runtime()),
        patch.object(torch, "Generator", _Generator),
        patch.object(compiled, "_compiled", lambda step: step),
        patch.object(four_bits, "kernel_agrees", lambda _kind, _device: False),
        patch.dict(os.environ, HF_DEACTIVATE_ASYNC_LOAD="1"),
        _Calls(),
        _Operations(),  # type: ignore[no-untyped-call]
    ]


def moved(model: nn.Module) -> nn.Module:
    """The same model, with its weights and buffers on the device from now on."""
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = nn.Parameter(parameter.detach().to(CUDA), requires_grad=False)
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else buffer.to(CUDA)
    return model


def on_host(tensor: Tensor) -> Tensor:
    """The numbers of a tensor, wherever it is; no host waits for this."""
    return tensor.host if isinstance(tensor, OnDevice) else tensor


def _synchronize(_device: object = None) -> None:
    _playing[-1].sync("synchronize")


def _register() -> None:
    """Tell torch, once and for all, that there is a device of this kind."""
    if not hasattr(torch, PLAYED.type):
        backend_registration._setup_privateuseone_for_python_backend()


# ---- calls of Python ------------------------------------------------------------------------------------------------


def _call(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Devices by the name that torch knows, and what never comes to be an operation."""
    if func is torch.device:
        return func(*args, **kwargs)
    args = [_known(value) for value in args]
    kwargs = {name: _known(value) for name, value in kwargs.items()}
    first = args[0] if args else None
    goes = isinstance(first, OnDevice) or _is_played(kwargs.get("device"))
    if getattr(kwargs.get("generator"), "is_played", goes) != goes:
        raise WrongDeviceError(f"{func}: a generator of the other device")
    if func in (torch.tensor, torch.as_tensor) and goes and not isinstance(first, OnDevice):
        return func(*args, **{**kwargs, "device": HOST}).to(PLAYED)  # which waits
    if isinstance(first, OnDevice):
        if special := _HOST_CALLS.get(func):
            return special(first)
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[1], list):
            args[1] = torch.tensor(args[1])
    return func(*args, **kwargs)


def _known(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == CUDA.type:
        return PLAYED
    return PLAYED if isinstance(value, str) and value.partition(":")[0] == CUDA.type else value


def _is_played(device: Any) -> bool:
    return device is not None and torch.device(device).type == PLAYED.type


def _to_list(tensor: OnDevice) -> Any:
    _playing[-1].sync("tolist")
    return tensor.host.tolist()


def _to_numpy(_tensor: OnDevice) -> Any:
    raise WrongDeviceError("numpy of a tensor that is on the device")


_HOST_CALLS: dict[Any, Callable[[OnDevice], Any]] = {
    Tensor.tolist: _to_list,
    Tensor.numpy: _to_numpy,
    Tensor.__array__: _to_numpy,
    Tensor.data_ptr: lambda tensor: tensor.host.data_ptr(),
    Tensor.record_stream: lambda _tensor: None,
}


# ---- operations -----------------------------------------------------------------------------------------------------


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func.overloadpacket.__name__
    if name in COMPOSED or (name == "where" and len(args) == 1):  # in inference mode they come as they were called
        with _Operations():  # type: ignore[no-untyped-call]
            return func.decompose(*args, **kwargs)
    tensors = list(_tensors((args, kwargs)))
    here = [tensor for tensor in tensors if isinstance(tensor, OnDevice)]
    wanted = kwargs.get("device")
    goes = _is_played(wanted) if wanted is not None else bool(here)
    if not here and not goes:
        return func(*args, **kwargs)
    _count(name, args, kwargs, goes, len(here) < len(tensors))
    if here and len(here) < len(tensors) and name not in CROSSING:
        _refuse_strangers(func, args if name in INDEXED else (), tensors)
    if name == "histc" and not args[0].is_floating_point():  # the host counts no whole numbers
        return func(args[0].float(), *args[1:], **kwargs).to(args[0].dtype)
    if name == "copy_" and len(here) < len(tensors) and current_stream() is not COMPUTING:
        current_stream().copy(args[1], args[0].host)
        return args[0]
    wrapped = {id(tensor.host): tensor for tensor in here}
    found = func(*_each(args, _inner), **{key: _each(value, _inner) for key, value in kwargs.items()})
    return args[0] if name == "copy_" else _each(found, lambda value: _outer(value, wrapped, goes))


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple, dict)):
            yield from _tensors(value)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_each(one, change) for one in value])
    return change(value)


def _refuse_strangers(func: Any, indexed: tuple[Any, ...], tensors: list[Tensor]) -> None:
    """Numbers without dimensions may come from anywhere, as on a real GPU; so may indices."""
    indices = {id(index) for index in indexed[1]} if indexed else set()
    for tensor in tensors:
        if not isinstance(tensor, OnDevice) and tensor.ndim and id(tensor) not in indices:
            shapes = [f"{'device' if isinstance(each, OnDevice) else 'host'} {tuple(each.shape)}" for each in tensors]
            raise WrongDeviceError(f"{func}: {', '.join(shapes)}")


def _count(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], goes: bool, has_strangers: bool) -> None:
    played = _playing[-1]
    if name in WAITED_FOR or (name == "repeat_interleave" and len(args) > 1 and isinstance(args[1], Tensor)):
        played.sync(name)
    elif name in CROSSING:
        to_device = isinstance(args[0], OnDevice) if name == "copy_" else goes
        if not to_device:
            played.sync("to the host")
        elif has_strangers:
            played.upload(name)
            if not kwargs.get("non_blocking", name == "copy_" and len(args) > 2 and args[2]):
                played.sync(f"{name} to the device")
    elif name in INDEXED:
        for index in args[1]:
            if index is not None and not isinstance(index, OnDevice):
                played.upload(name)
            elif index is not None and index.dtype == torch.bool:
                played.sync(name)


def _inner(value: Any) -> Any:
    if isinstance(value, OnDevice):
        return value.host
    return HOST if isinstance(value, torch.device) and value.type == PLAYED.type else value


def _outer(value: Any, wrapped: Mapping[int, OnDevice], goes: bool) -> Any:
    if not isinstance(value, Tensor) or isinstance(value, OnDevice):
        return value
    known = wrapped.get(id(value))
    if known is not None or not goes:
        return value if known is None else known
    with torch.inference_mode(value.is_inference()):  # views of weights, which are none, must be none
        return OnDevice(value)
