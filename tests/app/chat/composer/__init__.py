"""Tests of the chat's composer."""
