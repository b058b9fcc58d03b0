"""Engines elsewhere that a person has saved: the list, which of them answers, and the dialog that connects to one."""
