"""The window around the rooms: layout, wiring, start and end of the program, help and diagnostics."""
