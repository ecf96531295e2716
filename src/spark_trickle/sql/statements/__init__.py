"""Statement text -> statements as values."""
