"""Stream tables kept as Delta tables: each refresh is one commit of them."""
