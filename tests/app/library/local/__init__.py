"""Models on this computer."""
