"""The stream tables of a catalog -> who reads whom, in an order in which they can be refreshed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter

from spark_trickle.model.table import Table


@dataclass(frozen=True)
class Graph:
    """`reads` has for each stream table the ids of the tables that it reads."""

    tables: Mapping[int, Table]
    reads: Mapping[int, tuple[int, ...]]

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Every stream table after those it reads, otherwise by age."""
        sorter = TopologicalSorter({i: self.streams_read_by(i) for i in sorted(self.reads)})
        sorter.prepare()
        done: list[int] = []
        while ready := sorted(sorter.get_ready()):
            done += ready
            sorter.done(*ready)
        return tuple(done)

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
        """The stream tables that it depends on, in order."""
        found: set[int] = set()
        todo = [i]
        while todo:
            new = [s for s in self.streams_read_by(todo.pop()) if s not in found]
            found.update(new)
            todo += new
        return tuple(n for n in self.order if n in found)

    def descendants(self, i: int) -> tuple[int, ...]:
        """The stream tables that depend on a table, in order."""
        found: set[int] = set()
        todo = [i]
        while todo:
            new = [r for r in self.readers.get(todo.pop(), ()) if r not in found]
            found.update(new)
            todo += new
        return tuple(n for n in self.order if n in found)

    def is_diamond(self, i: int) -> bool:
        """Whether some table reaches it on more than one way, of which one leads through a stream table."""
        ways = [
            {s, *(t for a in (s, *self.ancestors(s)) for t in self.reads.get(a, ()))} for s in self.reads[i]
        ]
        through = bool(self.streams_read_by(i))
        return through and any(a & b for n, a in enumerate(ways) for b in ways[n + 1 :])

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Stream tables that must move on together, so that a diamond never shows two states of a source."""
        leader: dict[int, int] = {i: i for i in self.order}

        def find(i: int) -> int:
            while leader[i] != i:
                i = leader[i]
            return i

        for i in self.order:
            if self.is_diamond(i):
                for other in self.ancestors(i):
                    leader[find(other)] = find(i)
        members: dict[int, list[int]] = {}
        for i in self.order:
            members.setdefault(find(i), []).append(i)
        return tuple(tuple(m) for m in members.values())

    def cycle_through(self, i: int, reads: Iterable[int]) -> tuple[int, ...] | None:
        """The way back to a stream table, if it read these tables."""
        for start in reads:
            if start == i:
                return (i, i)
            todo: list[tuple[int, ...]] = [(i, start)]
            while todo:
                way = todo.pop()
                for source in self.streams_read_by(way[-1]):
                    if source == i:
                        return (*way, i)
                    todo.append((*way, source))
        return None


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
