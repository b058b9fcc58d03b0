"""What stands between the network and the endpoints: who may ask, how much of it, and what they are told otherwise."""
