"""Refusals of packed weights, as sentences."""

from engine.errors import ModelError
from engine.protocol.sentences import say, shown


def damaged(name: str, tensor: str, fault: str) -> ModelError:
    """The packed weight `tensor` of the model `name` is not what its format says; `fault` is a clause."""
    return ModelError(
        say("The packed weight {tensor} of '{name}' {fault}.", tensor=shown(tensor), name=name, fault=fault),
        say("The checkpoint is damaged or was made by a program that is not known: get it again, or choose another."),
    )


def unknown_packing(name: str, *what: object) -> ModelError:
    """Weights packed in a way that is not known: `what` names the method, and what of it is unknown."""
    return ModelError(
        say(
            "The weights of '{name}' are quantised already, by {method}, which cannot be read.",
            name=name,
            method=shown(", ".join(map(str, what))),
        ),
        say("Choose its original version in 16 bits; Coppice can quantise that itself."),
    )


def unknown_weights(name: str, tensor: str) -> ModelError:
    """The refusal of a model for weights that are none of its network's."""
    return ModelError(
        say("'{name}' has the weights {tensor}, which are not known.", name=name, tensor=shown(tensor)),
        say("Choose another version of the model, or update Coppice."),
    )
