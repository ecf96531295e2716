"""The tables that a query names, and other texts in their places."""
