"""Weights anywhere: on the device, in RAM, on SSD, in 16 bits or fewer; and the stream that brings them in time."""
