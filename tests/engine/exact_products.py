"""Products in all 32 bits on CUDA, for tests that compare a GPU with the processor."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def exact_products() -> Iterator[None]:
    """Without TF32 in matrices and convolutions.

    By hand: pytest's `monkeypatch` deletes such attributes at its end, which these modules refuse.
    """
    switches: tuple[Any, ...] = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [switch.allow_tf32 for switch in switches]
    for switch in switches:
        switch.allow_tf32 = False
    try:
        yield
    finally:
        for switch, allowed in zip(switches, before, strict=True):
            switch.allow_tf32 = allowed
