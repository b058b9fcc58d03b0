"""The assistant that installs the engine: what suits this computer, how far it is, and what can be done."""
