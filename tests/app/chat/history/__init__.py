"""Tests of the chat's history."""
