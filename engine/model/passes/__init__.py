"""What a pass over a token tree reads and how it is launched: cache, its copies, masks, attention, streams, graphs."""
