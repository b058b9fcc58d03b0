"""Tests of the chat's typesetting."""
