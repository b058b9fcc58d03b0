"""Which draft goes with which target: candidates, their vocabularies and sizes, and suggested pairs."""
