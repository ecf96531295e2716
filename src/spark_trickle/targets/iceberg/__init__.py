"""Stream tables kept as Iceberg tables: each refresh is one snapshot of them."""
