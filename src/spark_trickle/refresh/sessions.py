"""What a refresh computes -> computed in a session of ours, beside that of the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from spark_trickle.errors import QueryError, TrickleError
from spark_trickle.model.table import Table
from spark_trickle.txn.savepoint import roll_back, take_savepoint
from spark_trickle.txn.work import Work

_Done = TypeVar("_Done")
_UNKNOWN_FUNCTION = ("UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION")
# What they answer follows the session of the user, which moves on by a USE.
_OF_SESSION = re.compile(r"\bcurrent_(catalog|database|schema)\b", re.IGNORECASE)


def run_in_child_session(work: Work, table: Table, run: Callable[[], _Done]) -> _Done:
    """Run a refresh of a stream table in the child session.

    A query may call functions that were registered in the session of the user, and are known nowhere else.
    Then it runs there, with the settings of the user; what was computed until Spark missed one is done again.
    """
    place, stream = work.place, table.stream
    assert stream is not None
    if place.only_for_user.find(stream.plan) is not None or _OF_SESSION.search(stream.plan):
        return run()
    savepoint = take_savepoint(work)
    work.place = place.in_child()
    try:
        return run()
    except QueryError as error:
        if not misses_function(error):
            raise
        place.only_for_user.put(stream.plan, stream.plan)
    finally:
        work.place = place
    roll_back(work, savepoint)
    return run()


def misses_function(error: TrickleError) -> bool:
    return isinstance(error, QueryError) and error.condition.startswith(_UNKNOWN_FUNCTION)
