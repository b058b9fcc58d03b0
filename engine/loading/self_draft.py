"""The target as its own draft: 4-bit copies of the layers that stream, beside those that are where they compute.

Compare SubSpec (Wang et al., NeurIPS 2025): the copy shares resident layers, embeddings, head and cache with the
target, so it agrees with it most of the time, and takes a quarter of the streamed layers' memory.
"""

from collections.abc import Generator

from engine.cancellation import Cancellation
from engine.loading.loading import LayerCopies, LoadedTarget, prepared_layers
from engine.model.checkpoint import Checkpoint
from engine.model.twin import build_twin
from engine.protocol.messages import Loading
from engine.protocol.options import LoadOptions
from engine.weights.codecs.quantise import codec_named
from engine.weights.planning.arrangement import streamed_layers
from engine.weights.streaming.lane import CudaLane
from engine.weights.streaming.layer_stream import LayerStream

COPY = "nf4"


def load_copies(
    request: int, checkpoint: Checkpoint, loaded: LoadedTarget, options: LoadOptions, cancellation: Cancellation
) -> Generator[Loading, None, LayerCopies]:
    """Copies of the layers that stream, in the compute device's memory, and the network of them and all others.

    Yields progress. Raises `ModelError`, `Cancelled`, `MemoryError`, and `CoppiceError` if they cannot be prepared.
    """
    device = loaded.network.device
    own = streamed_layers(loaded.tiers, has_gpu=device.type == "cuda")
    every = yield from prepared_layers(request, checkpoint, COPY, options, cancellation)
    layouts = [every[index] for index in own]
    network = build_twin(loaded.network, checkpoint, own)
    stream = LayerStream(
        [network.layers[index] for index in own],
        layouts,
        ["device"] * len(own),
        decoder=codec_named(COPY),
        lane=CudaLane(device) if device.type == "cuda" else None,
    )
    try:
        for done, _ in enumerate(stream.load(), start=1):
            cancellation.check()
            yield Loading(request, f"Copying {checkpoint.name} in 4 bits", done, len(own))
    except BaseException:
        stream.close()
        raise
    return LayerCopies(network, stream, sum(layout.nbytes for layout in layouts))
