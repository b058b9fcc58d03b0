"""What a network computes between the products of a pass of few rows, on a processor: compiled, with few calls.

A layer of one row asks torch for some sixty operations, each of which takes longer to be called than to be computed.
"""
