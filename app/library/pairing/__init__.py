"""Which draft goes with which target: vocabularies compared, sizes weighed. Nothing here needs a window."""
