"""The truth: tables, snapshots and files, in a catalog and a data folder."""
