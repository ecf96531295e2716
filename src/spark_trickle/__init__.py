"""spark-trickle: exact change logs and stream tables for Apache Spark."""

from spark_trickle import errors
from spark_trickle.errors import TrickleError
from spark_trickle.model.report import Result
from spark_trickle.session import Trickle, connect

__version__ = "0.1.0"
__all__ = ["Result", "Trickle", "TrickleError", "connect", "errors"]
