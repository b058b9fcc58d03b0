"""A small trained pair with Gated DeltaNet layers, a test asset: its weights, and the recipe that made them."""
