"""Models: which pair is loaded, and the dialog that chooses another."""
