"""A small mixture of experts with skewed routing, a test asset: its weights, and the recipe that made them.

GLM-4.5's layers at the size of the embedded target, whose tokenizer and draft it shares: the embedded target's
feed-forward layers, split into experts, and routers fitted to where these are active; then all of it trained on what
the target says of the text it was trained on (sources: packaging/demo_models/LICENSES.md), with a weak loss for
balance, so that some experts are used more often than others. It does not ship with Coppice.
"""
