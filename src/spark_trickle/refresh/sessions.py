"""What a refresh computes -> computed in a session of ours beside that of the user, or in the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from spark_trickle.errors import QueryError, TrickleError
from spark_trickle.model.table import Table
from spark_trickle.refresh.compile import nodes_of
from spark_trickle.sql.dialect.moments import list_words
from spark_trickle.txn.savepoint import roll_back, take_savepoint
from spark_trickle.txn.work import Place, Work

_Done = TypeVar("_Done")
_UNKNOWN_FUNCTION = ("UNRESOLVED_ROUTINE", "UNRESOLVABLE_TABLE_VALUED_FUNCTION")
# What they answer follows the session of the user, which moves on by a USE.
_OF_SESSION = frozenset(("current_catalog", "current_database", "current_schema"))


@dataclass(frozen=True)
class SessionChoice:
    """In whose Spark session a stream table is refreshed."""

    is_own: bool
    reason: str


def choose_session(place: Place, plan: str) -> SessionChoice:
    """A child session, whose settings and views are ours, unless the query asks for the user's."""
    if asked := sorted(_OF_SESSION & _words_of(plan)):
        return SessionChoice(False, f"in your session, because the query calls {asked[0]}()")
    if place.only_for_user.find(plan) is not None:
        reason = "in your session, because the query calls a function that is registered only there"
        return SessionChoice(False, reason)
    return SessionChoice(True, "in a session of its own beside yours")


@lru_cache(maxsize=256)  # as many as plans are kept
def _words_of(plan: str) -> frozenset[str]:
    return list_words(node.plan for node in nodes_of(plan))


def run_in_child_session(work: Work, table: Table, run: Callable[[], _Done]) -> _Done:
    """Run a refresh of a stream table in the session that is chosen for it.

    That the query calls functions of the user is known once the child session misses one. Then the refresh
    runs again in the session of the user, and so do those that follow.
    """
    place, stream = work.place, table.stream
    assert stream is not None
    if not choose_session(place, stream.plan).is_own:
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
