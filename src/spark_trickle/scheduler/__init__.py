"""Many refreshes: what is due, and who does it."""
