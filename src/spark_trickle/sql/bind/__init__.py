"""A query -> a tree of operators."""
