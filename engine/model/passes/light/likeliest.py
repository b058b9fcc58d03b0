"""The likeliest tokens of few rows of logits in one call instead of ten."""

import sys

import numpy as np
import torch
from torch import Tensor

from engine.model.products.layouts import Array
from engine.model.products.product import native
from engine.model.products.team import team
from engine.own_thread import computes_alone, threads_allowed

COMPILED = "engine.model.products.native"
WORTH_SPREADING = 1 << 18  # logits that one thread takes some 200 microseconds for
READ = (torch.float32, torch.bfloat16)


def likeliest(logits: Tensor, vocabulary: int, width: int) -> tuple[Array, Array] | None:
    """Logarithms of probabilities, float32, and tokens, int64, of the `width` likeliest below `vocabulary`.

    logits [rows, listed]; both [rows, width], the likeliest first, -inf throughout where no probabilities can be told.
    None for logits elsewhere than in memory of the processor, and where nothing else was compiled: that takes longer.
    """
    if COMPILED not in sys.modules or logits.device.type != "cpu" or logits.dtype not in READ:
        return None
    if logits.ndim != 2 or not logits.is_contiguous():
        return None
    loop, rows = native().works.likeliest, len(logits)
    found, tokens = np.empty((rows, width), np.float32), np.empty((rows, width), np.int64)
    told = np.zeros(loop.TOLD, np.int64)
    told[[loop.LOGITS, loop.TOKENS, loop.LOG_PROBS]] = logits.data_ptr(), tokens.ctypes.data, found.ctypes.data
    told[[loop.LISTED, loop.VOCABULARY, loop.WIDTH]] = logits.shape[1], min(vocabulary, logits.shape[1]), width
    told[loop.IS_NARROW] = logits.dtype == torch.bfloat16
    if rows < 2 or logits.numel() < WORTH_SPREADING:
        loop.find(told.ctypes.data, 0, rows)
    else:
        _spread(told, rows)
    return found, tokens


def _spread(told: Array, rows: int) -> None:
    """A share for each row."""
    loop = native()
    table = np.zeros((rows, loop.shares.SHARE), np.int64)
    table[:, loop.LOOP], table[:, loop.MATRIX] = loop.works.loop_for("likeliest"), told.ctypes.data
    table[:, loop.BEGIN], table[:, loop.END] = np.arange(rows), np.arange(rows) + 1
    team().run(table, min(threads_allowed(), rows), computes_alone())
