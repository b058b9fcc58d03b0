"""The engine's runtime, a Python with torch: found, made from checked wheels, repaired and removed; no Qt, no torch.

An `Installation` makes one, in the thread that runs it; what it is doing is read as `Progress`. A runtime counts only
when everything in it was verified: until then it lies in a staging folder that the next start takes away.
"""
