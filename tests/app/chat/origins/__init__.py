"""Tests of the chat's origins."""
