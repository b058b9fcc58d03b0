"""A context that reads what another one has read: its draft guesses behind the target's own tokens, for the moment."""

from collections.abc import Callable, Sequence

from engine.model.context import Context
from engine.model.network import Network


class SharedContext(Context):
    """A twin of the host's network, in the host's cache: it reads the committed tokens there and commits none itself.

    Its pending nodes stand behind them for as long as the host has none. As soon as the host scores they are
    overwritten, so they must be forgotten before the next ones are scored: `keep` forgets them all.
    """

    def __init__(self, network: Network, host: Context, between_layers: Callable[[], None] = lambda: None) -> None:
        """`between_layers` runs before the layers that are not the host's, which have a hook of their own."""
        super().__init__(network, 0)
        self.tokens = host.tokens  # the host's own list, which only the host changes
        self._cache = host._cache
        self._host = host
        self._turned = host._turned
        shared = {id(layer) for layer in host.network.layers}
        for layer in network.layers:
            if id(layer) not in shared:
                layer.register_forward_pre_hook(lambda _layer, _args: between_layers())

    def prefill(self, tokens: Sequence[int]) -> int:
        """Nothing to compute: the host has read `tokens`, and nothing else."""
        assert self.tokens == list(tokens), "the host reads a prompt before its guest does"
        self._pending.clear()
        return len(tokens)

    def settle(self) -> None:
        """The host reads its own tokens again, before the first guess behind them; the guesses go on as they began."""
        if not len(self._pending):
            self._host.settle()

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        """Forget every pending node, also `rest`; the host commits what was accepted, with its own keys and values."""
        del nodes, rest
        self._pending.clear()
