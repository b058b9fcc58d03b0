"""What a pass over a token tree reads and how it is launched: cache, masks, attention, streams and recorded passes."""
