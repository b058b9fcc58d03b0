"""Models on this computer: found, measured, verified, deleted. Nothing here needs a window."""
