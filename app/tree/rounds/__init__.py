"""Rounds as data: checked, kept, recorded, exported, and played again."""
