"""Other systems -> changes: what happened to a table elsewhere, as weighted rows."""
