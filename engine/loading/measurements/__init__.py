"""How fast this machine is: measured with the weights and shapes of a model, once, and kept."""
