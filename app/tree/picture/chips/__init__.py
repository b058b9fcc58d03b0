"""Trees as chips: where they stand in rows, levels or lines, how large, and how they are painted."""
