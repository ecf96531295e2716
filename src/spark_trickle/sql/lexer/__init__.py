"""SQL text -> words with their places."""
