"""Tests of the chat's view."""
