"""The catalog: its tables, and everything that is read from them and written to them."""
