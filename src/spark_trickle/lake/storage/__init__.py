"""The data folder: its files, whose it is, and how it is kept, copied and checked."""
