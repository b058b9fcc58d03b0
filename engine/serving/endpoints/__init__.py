"""One file for each kind of address: what a client sends and gets there, and how the two become the engine's."""
