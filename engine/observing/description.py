"""A loaded model in the words of the counter."""

from engine.model.checkpoint import Checkpoint
from engine.model.network import Network
from engine.protocol.messages import ModelInfo
from engine.protocol.residence import Holding, Residence
from engine.weights.planning.arrangement import streamed_layers
from engine.weights.planning.placement import Plan


def describe_model(checkpoint: Checkpoint, network: Network, codec: str = "") -> ModelInfo:
    """What a person wants to know of it; `codec` if its weights are compressed."""
    return ModelInfo(
        source=checkpoint.source,
        name=checkpoint.name,
        family=str(checkpoint.config["model_type"]),
        parameters=checkpoint.parameters,
        layers=len(network.layers),
        bytes=sum(parameter.nbytes for parameter in network.model.parameters()),
        weights=codec or str(network.dtype).removeprefix("torch."),
        device=str(network.device),
    )


def describe_residence(plan: Plan) -> Residence:
    """Where the layers of a target that was loaded by this plan are."""
    taken, room = plan.bytes, plan.room
    return Residence(
        layer_bytes=plan.layer_bytes,
        device=Holding(taken.device, room.device),
        ram=Holding(room.ram_taken(taken.device, taken.ram), room.ram),
        shared=room.shared,
        stream_bytes_per_second=_stream_bytes_per_second(plan),
    )


def _stream_bytes_per_second(plan: Plan) -> float:
    """The slowest part of the way sets the pace; both parts are at work at once."""
    streamed = streamed_layers(plan.arrangement.tiers, has_gpu=not plan.room.shared)
    seconds = max(plan.forecast.link_seconds, plan.forecast.ssd_seconds)
    return sum(plan.layer_bytes[index] for index in streamed) / seconds if seconds else 0.0
