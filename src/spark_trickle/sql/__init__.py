"""SQL text <-> values and trees."""
