"""The model hub: search, facts about models, files, tokens, and failures. No Qt."""
