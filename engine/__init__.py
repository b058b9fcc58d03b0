"""The engine: a target model verified over a tree that a draft model grows. Imports nothing heavy."""

__version__ = "0.1.0"
