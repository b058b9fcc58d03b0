"""The picture of one tree: layout, chips, icicle, and the canvas that shows them."""
