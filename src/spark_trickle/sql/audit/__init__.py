"""A query -> variants of it that tell which answers are right where Spark may give several."""
