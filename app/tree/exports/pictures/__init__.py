"""Pictures of one round: what they show, how that is set on a page, their formats, and the dialog."""
