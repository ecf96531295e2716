"""Query text <-> sqlglot's trees, as Spark understands it."""
