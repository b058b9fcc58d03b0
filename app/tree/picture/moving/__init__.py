"""What moves in the picture: growth, the motion of a round that arrives, and the layers that go by."""
