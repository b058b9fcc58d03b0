"""The speculation methods, one file each, and the verification that keeps the target's distribution."""
