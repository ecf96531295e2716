"""Stream tables -> tables of other systems, exactly once; one file is the front of each system."""
