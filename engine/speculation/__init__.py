"""Speculation: trees, the drafters that grow them, acceptance, and the rounds that use both."""
