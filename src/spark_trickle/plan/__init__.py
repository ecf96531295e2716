"""A plan -> a better plan, pass by pass."""
