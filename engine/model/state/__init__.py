"""Token trees on layers that keep a state: what each node reads and writes, from the state at the root alone."""
