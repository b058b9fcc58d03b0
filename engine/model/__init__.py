"""Models: a folder opened safely, the network, its tree cache, and a context that scores trees."""
