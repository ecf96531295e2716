"""Values that all layers share; pure."""
