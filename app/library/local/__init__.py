"""Models on this computer: found, measured, verified and deleted."""
