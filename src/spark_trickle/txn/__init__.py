"""One transaction: what it reads, what it changes, and how that is stored and committed."""
