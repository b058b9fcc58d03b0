"""Figures of rounds: counted, kept, and written as people read them; no widgets."""
