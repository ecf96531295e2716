"""What a scan reads: a table, a node of the plan, or rows that were found before; and the names of these.

The name of a reference stands in SQL texts, in stored plans and in what `EXPLAIN` prints.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from spark_trickle.errors import InternalError


@dataclass(frozen=True)
class TableRef:
    """A table of the catalog, `t3`."""

    id: int

    def __str__(self) -> str:
        return f"t{self.id}"


@dataclass(frozen=True)
class NodeRef:
    """A node of the plan, which keeps its rows in a table of its own: `n1` is the first."""

    number: int

    def __str__(self) -> str:
        return f"n{self.number}"


class RoundPart(StrEnum):
    """Which rows of a recursion are meant; see `delta/recursive`."""

    LAST = ""  # those that the last round found, which the step reads
    ALL = "all"
    SEED = "seed"
    CHANGE = "change"
    REACHED = "reached"
    DELETED = "deleted"
    INSERTED = "inserted"
    CANDIDATES = "candidates"


@dataclass(frozen=True)
class RoundRef:
    """Rows that a recursion found: `r4` in its last round, `r4_deleted` are those that go."""

    number: int
    part: RoundPart = RoundPart.LAST

    def of_part(self, part: RoundPart) -> RoundRef:
        """Other rows of the same recursion."""
        return RoundRef(self.number, part)

    def __str__(self) -> str:
        return f"r{self.number}_{self.part}" if self.part else f"r{self.number}"


@dataclass(frozen=True)
class StepRef:
    """Rows that are computed before the plan that reads them, `k2`.

    The plans of a recursion have steps of their own: `k_r4_2` is the second of those for `r4`.
    """

    number: int
    within: RoundRef | StepRef | None = None

    def __str__(self) -> str:
        return f"k{self.number}" if self.within is None else f"k_{self.within}_{self.number}"


@dataclass(frozen=True)
class DriverRef:
    """Rows that were made at the driver for Spark to read, `h5`."""

    number: int

    def __str__(self) -> str:
        return f"h{self.number}"


ComputedRef = RoundRef | StepRef  # rows that a program keeps under a name
Reference = TableRef | NodeRef | ComputedRef | DriverRef

_NAME = re.compile(r"([tnrkh])(?:_(\w+)_)?(\d+)(?:_([a-z]+))?")


def read_reference(name: str) -> Reference:
    """The reference that has a name."""
    found = _NAME.fullmatch(name)
    match found.groups() if found else ():
        case ("t", None, number, None):
            return TableRef(int(number))
        case ("n", None, number, None):
            return NodeRef(int(number))
        case ("r", None, number, part) if (part or "") in set(RoundPart):
            return RoundRef(int(number), RoundPart(part or ""))
        case ("k", None, number, None):
            return StepRef(int(number))
        case ("k", str(within), number, None):
            outer = read_reference(within)
            if isinstance(outer, ComputedRef):
                return StepRef(int(number), outer)
        case ("h", None, number, None):
            return DriverRef(int(number))
    raise InternalError(f'a plan cannot read "{name}"')
