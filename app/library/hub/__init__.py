"""What the model hub says: search, facts about models, access, tokens. Nothing here needs a window."""
