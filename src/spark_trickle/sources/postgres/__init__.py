"""A PostgreSQL database -> its rows at one moment, and every change after it, exactly once."""
