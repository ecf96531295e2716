"""Sources that implement `sources/interface`: attached, followed and synced, whatever system they are."""
