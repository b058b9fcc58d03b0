"""Brings layers to the compute device just before they run."""
