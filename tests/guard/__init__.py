"""What keeps the processes of the tests off the network."""
