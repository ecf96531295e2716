"""Stream tables: how they are defined, and how they are brought up to date."""
