"""What was read of data files lately, in memory."""
