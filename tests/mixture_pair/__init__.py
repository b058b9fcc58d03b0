"""A small mixture of experts with skewed routing, a test asset: its weights, and the recipe that made them.

GLM-4.5's layers at the size of the embedded target, whose tokenizer and draft it shares: the embedded target's
feed-forward layers, split into experts, and routers fitted to where these are active on the text that the target was
trained on; its sources: packaging/demo_models/LICENSES.md. Nothing balances the experts, so that some are used far more
often than others. It does not ship with Coppice.
"""
