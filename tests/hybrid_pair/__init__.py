"""A small trained pair with Gated DeltaNet layers, a test asset: its weights, and the recipe that made them.

Target (7.6 million parameters, and 1.0 in its head) and draft (1.1) have Qwen3.5's layers at the sizes of the embedded
pair: three of four (draft: two of three) keep a state. They began as copies of the embedded models and were trained on
their distributions, over the same text; its sources: packaging/demo_models/LICENSES.md. Neither ships with Coppice.
"""
