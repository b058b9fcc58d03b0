"""Tests of the chat's generation."""
