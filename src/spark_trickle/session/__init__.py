"""The front door: connect() and the connection that it returns."""

from spark_trickle.session.connect import connect
from spark_trickle.session.trickle import Trickle

__all__ = ["Trickle", "connect"]
