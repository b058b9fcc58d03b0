"""Tests of the chat's text."""
