"""Delta Lake: its log, read with pyarrow alone, and its tables as sources in place."""
