"""Iceberg tables, read in place: the metadata by pyiceberg, the data files by Spark."""
