"""Queries and their changes as trees of operators; pure."""
