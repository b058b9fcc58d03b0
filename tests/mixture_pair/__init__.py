"""A small trained mixture of experts, a test asset: its weights, and the recipe that made them.

GLM-4.5's layers at the size of the embedded target, whose tokenizer and draft it shares: its feed-forward layers were
split into experts and then trained on the embedded target's distributions, over the same text; its sources:
packaging/demo_models/LICENSES.md. No loss balances its experts, so that some are used far more often than others.
It does not ship with Coppice.
"""
