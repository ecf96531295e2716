"""How what is evaluated at the driver says that it cannot be."""

from __future__ import annotations


class ForSpark(Exception):
    """What only Spark can tell."""
