"""Drafts for targets."""
