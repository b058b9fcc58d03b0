"""Markdown as Qt documents: blocks, sections, links, and very long texts."""
