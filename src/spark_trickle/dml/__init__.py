"""Statements that change tables -> changes of a transaction."""
