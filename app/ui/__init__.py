"""Widgets, colours, notices and actions that every room uses."""
