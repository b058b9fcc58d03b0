"""Products of few rows with weights as they are stored, and their decoders: compiled on the CPU that is there."""
