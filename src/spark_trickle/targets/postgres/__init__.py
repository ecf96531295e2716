"""A stream table -> a table in PostgreSQL that is always at one whole snapshot of it."""
