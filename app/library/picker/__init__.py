"""What a person sees of the model library: the dialog, its pages and lists, and the pane beside them."""
