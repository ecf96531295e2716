"""A tree -> the tree of its change; pure, with a law for each rule."""
