"""The command `trickle`."""
