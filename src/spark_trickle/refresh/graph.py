"""The stream tables of a catalog -> who reads whom, in an order in which they can be refreshed.

Stream tables may read each other in a circle. Such a circle is one step of every order: its members are
refreshed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from graphlib import CycleError, TopologicalSorter
from operator import or_

from spark_trickle.model.table import Table


@dataclass(frozen=True)
class Graph:
    """`reads` has for each stream table the ids of the tables that it reads."""

    tables: Mapping[int, Table]
    reads: Mapping[int, tuple[int, ...]]

    def with_reads(self, i: int, reads: Iterable[int]) -> Graph:
        """As it would be if a stream table read these tables."""
        return replace(self, reads={**self.reads, i: tuple(reads)})

    def name(self, i: int) -> str:
        """The name of a table, also of one that was dropped although stream tables read it."""
        if (table := self.tables.get(i)) is not None:
            return table.full_name
        streams = (t.stream for t in self.tables.values() if t.stream is not None)
        known = (s.full_name for stream in streams for s in stream.sources if s.table_id == i)
        return f"{next(known, f'table {i}')} (dropped)"

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Every stream table after those it reads, otherwise by age; a circle without a gap."""
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for i in sorted(self.reads):
            first = {self._find_first(s) for s in self.streams_read_by(i)}
            sorter.add(self._find_first(i), *sorted(first - {self._find_first(i)}))
        sorter.prepare()
        done: list[int] = []
        while ready := sorted(sorter.get_ready()):
            done += [m for i in ready for m in self.circle_of(i) or (i,)]
            sorter.done(*ready)
        return tuple(done)

    @cached_property
    def circles(self) -> tuple[tuple[int, ...], ...]:
        """Stream tables that read each other, on whatever way, or themselves."""
        try:
            TopologicalSorter({i: self.streams_read_by(i) for i in self.reads}).prepare()
        except CycleError:
            reached = {i: _find_reachable(i, self.streams_read_by) for i in sorted(self.reads)}
            found = [tuple(j for j in sorted(r) if i in reached[j]) for i, r in reached.items() if i in r]
            return tuple(dict.fromkeys(found))
        return ()

    @cached_property
    def _circles(self) -> Mapping[int, tuple[int, ...]]:
        return {i: circle for circle in self.circles for i in circle}

    def circle_of(self, i: int) -> tuple[int, ...]:
        """The members of its circle, itself among them; empty for all others."""
        return self._circles.get(i, ())

    def _find_first(self, i: int) -> int:
        return self._circles.get(i, (i,))[0]

    def units(self, ids: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """What is refreshed at once, in the given order: a circle as a whole, the others one by one."""
        return tuple(dict.fromkeys(self.circle_of(i) or (i,) for i in ids))

    @cached_property
    def readers(self) -> Mapping[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for i in sorted(self.reads):
            for source in self.reads[i]:
                found.setdefault(source, []).append(i)
        return {i: tuple(r) for i, r in found.items()}

    def streams_read_by(self, i: int) -> tuple[int, ...]:
        return tuple(s for s in self.reads.get(i, ()) if s in self.reads)

    def ancestors(self, i: int) -> tuple[int, ...]:
        """The other stream tables that it depends on, in order."""
        found = _find_reachable(i, self.streams_read_by)
        return tuple(n for n in self.order if n in found and n != i)

    def descendants(self, i: int) -> tuple[int, ...]:
        """The other stream tables that depend on a table, in order."""
        found = _find_reachable(i, lambda n: self.readers.get(n, ()))
        return tuple(n for n in self.order if n in found and n != i)

    @cached_property
    def _reach(self) -> Mapping[int, int]:
        """Every table with everything that leads to it, itself among them: a bit for each."""
        tables = {*self.reads, *(s for sources in self.reads.values() for s in sources)}
        bits = {i: 1 << n for n, i in enumerate(sorted(tables))}
        for unit in self.units(self.order):
            # Of its own circle a member knows only itself until all of them are joined.
            joined = reduce(or_, (bits[n] for i in unit for n in (i, *self.reads[i])))
            bits.update(dict.fromkeys(unit, joined))
        return bits

    def is_diamond(self, i: int) -> bool:
        """Whether some table reaches it on more than one way, of which one leads through a stream table.

        In a circle every table does: once directly, and again on every way around.
        """
        if self.circle_of(i):
            return True
        ways = [self._reach[s] for s in self.reads[i]]
        through = bool(self.streams_read_by(i))
        return through and any(a & b for n, a in enumerate(ways) for b in ways[n + 1 :])

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Stream tables that must move on together, so that a diamond never shows two states of a source."""
        leader: dict[int, int] = {i: i for i in self.order}

        def find_leader(i: int) -> int:
            while leader[i] != i:
                leader[i] = leader[leader[i]]  # ways to a leader stay short, however many there are
                i = leader[i]
            return i

        joined: set[int] = set()  # with all that they depend on
        for i in self.order:
            todo = [i] if self.is_diamond(i) else []
            while todo:
                n = todo.pop()
                leader[find_leader(n)] = find_leader(i)
                if n not in joined:
                    joined.add(n)
                    todo += self.streams_read_by(n)
        members: dict[int, list[int]] = {}
        for i in self.order:
            members.setdefault(find_leader(i), []).append(i)
        return tuple(tuple(m) for m in members.values())

    def cycle_through(self, i: int, reads: Iterable[int]) -> tuple[int, ...] | None:
        """The way back to a stream table, if it read these tables."""
        for start in reads:
            if start == i:
                return (i, i)
            todo: list[tuple[int, ...]] = [(i, start)]
            seen = {start}
            while todo:
                way = todo.pop()
                for source in self.streams_read_by(way[-1]):
                    if source == i:
                        return (*way, i)
                    if source not in seen:
                        seen.add(source)
                        todo.append((*way, source))
        return None


def _find_reachable(start: int, step: Callable[[int], Iterable[int]]) -> set[int]:
    """Everything that some number of steps leads to; the start itself only if a way leads back."""
    found: set[int] = set()
    todo = [start]
    while todo:
        new = [n for n in step(todo.pop()) if n not in found]
        found.update(new)
        todo += new
    return found


def graph_of(tables: Iterable[Table]) -> Graph:
    known = {t.id: t for t in tables}
    return Graph(
        known,
        {
            t.id: tuple(s.table_id for s in t.stream.sources)
            for t in known.values()
            if t.stream is not None and t.owner is None
        },
    )
