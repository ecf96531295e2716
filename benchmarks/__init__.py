"""Benchmarks: everything is a ratio between things run alternately in one process on the same data."""
