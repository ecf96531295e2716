"""The plan of a stream table -> columns that no two of its rows share, also for the tables of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_trickle.algebra.keys import Key, unique_key
from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.references import NodeRef, Reference, TableRef
from spark_trickle.model.stream import Source
from spark_trickle.model.table import Table
from spark_trickle.model.types import Scalar, is_float
from spark_trickle.refresh.compile import nodes_of
from spark_trickle.txn.work import Work


def keys_of(work: Work, plans: Sequence[Operator], sources: Sequence[Source]) -> list[Key]:
    """For each node of a plan; empty where none is known. The plan has names of its own for columns."""
    names = {(s.table_id, c.column_id): c.name for s in sources for c in s.columns}

    def find_key(source: Reference) -> Key:
        match source:
            case NodeRef(number):
                return unique_key(plans[number - 1], find_key)
            case TableRef(table_id):
                table = work.catalog.table_by_id(table_id)
                key = table.distinct_by if table is not None else ()
                return tuple(names.get((table_id, c.id), c.name) for c in key)
        return ()

    return [unique_key(plan, find_key) for plan in plans]


def key_of(work: Work, table: Table) -> Key:
    if table.stream is None:
        return tuple(c.name for c in table.distinct_by)
    return keys_of(work, [n.plan for n in nodes_of(table.stream.plan)], table.stream.sources)[-1]


def with_identity(table: Table, key: Key) -> Table:
    """0.0 and −0.0 are one key and two rows, so floats are left alone; so are nested values."""
    columns = [table.column(name) for name in key]
    plain = all(isinstance(c.type, Scalar) and not is_float(c.type) for c in columns)
    return replace(table, identity=tuple(c.id for c in columns) if plain else ())


def find_lost_identity(work: Work, table: Table) -> list[str]:
    """What its rows were told apart by, if its sources no longer promise that."""
    if not table.identity or with_identity(table, key_of(work, table)).identity == table.identity:
        return []
    return [f"the keys of its sources no longer tell the rows of {table.full_name} apart"]
