"""What the warehouse tells of itself: the same values for SQL, the command line and HTTP."""
