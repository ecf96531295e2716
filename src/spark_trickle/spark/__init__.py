"""Everything that talks to Spark: sessions, reading, running, writing, errors."""
