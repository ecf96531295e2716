"""A tree of operators -> SQL text."""
