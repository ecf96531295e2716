"""The front door: connect() and what it gives."""

from spark_trickle.session.connect import connect
from spark_trickle.session.trickle import Trickle

__all__ = ["Trickle", "connect"]
