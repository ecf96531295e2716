"""Values that were made or read lately -> those that were used last, within a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Told = TypeVar("_Told", covariant=True)


@dataclass(eq=False)
class _Entry(Generic[_Value]):
    """A value, once somebody has made it."""

    lock: Lock
    made: tuple[_Value] | None = None
    weight: int = 0


def _one(_: object) -> int:
    return 1


@dataclass(frozen=True)
class Weighed(Generic[_Told]):
    """A value that cannot tell itself what it takes, as a DataFrame whose rows are in Spark."""

    value: _Told
    bytes: int


class Cache(Generic[_Key, _Value]):
    """The values that were used last; their weights, by default 1 each, stay within a budget.

    A value is made by the first who asks. Others who ask for the same wait for it, and nobody waits for
    anything else: the lock of the cache is held only to look and to note. What is dropped is told outside it.
    """

    def __init__(
        self,
        budget: int,
        weigh: Callable[[_Value], int] = _one,
        on_drop: Callable[[_Key, _Value], None] = lambda key, value: None,
    ) -> None:
        self._budget, self._weigh, self._on_drop = budget, weigh, on_drop
        self._entries: OrderedDict[_Key, _Entry[_Value]] = OrderedDict()
        self._lock = Lock()
        self.weight = 0

    def find(self, key: _Key) -> _Value | None:
        """A value that is there already."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.made is None:
                return None
            self._entries.move_to_end(key)
            return entry.made[0]

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """A value that is made if it is not there; if that fails, the next who asks tries again."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry(Lock()))
            self._entries.move_to_end(key)
        with entry.lock:
            if entry.made is None:
                try:
                    value = make()
                except BaseException:
                    self._forget(key, entry)
                    raise
                self._note(key, entry, value)
            assert entry.made is not None
            return entry.made[0]

    def put(self, key: _Key, value: _Value) -> None:
        """A value in the place of the one that is there."""
        entry = _Entry[_Value](Lock())
        with self._lock:
            dropped = self._take_out((key,))
            self._entries[key] = entry
        self._tell(dropped)
        self._note(key, entry, value)

    def list_keys(self) -> list[_Key]:
        """Of the values that are there, the one that was used last at the end."""
        with self._lock:
            return [key for key, entry in self._entries.items() if entry.made is not None]

    def drop(self, *keys: _Key) -> None:
        with self._lock:
            dropped = self._take_out(keys)
        self._tell(dropped)

    def clear(self) -> None:
        self.drop(*self.list_keys())

    def resize(self, budget: int) -> None:
        """A smaller budget frees what is beyond it at once."""
        with self._lock:
            self._budget = budget
            dropped = self._trim()
        self._tell(dropped)

    def _note(self, key: _Key, entry: _Entry[_Value], value: _Value) -> None:
        with self._lock:
            entry.made = (value,)
            if self._entries.get(key) is not entry:  # dropped while it was made
                dropped = [(key, value)]
            else:
                entry.weight = self._weigh(value)
                self.weight += entry.weight
                dropped = self._trim()
        self._tell(dropped)

    def _forget(self, key: _Key, entry: _Entry[_Value]) -> None:
        with self._lock:
            if self._entries.get(key) is entry:
                del self._entries[key]

    def _trim(self) -> list[tuple[_Key, _Value]]:
        """The values beyond the budget, those that were used first."""
        weight, beyond = self.weight, []
        for key, entry in self._entries.items():
            if weight <= self._budget:
                break
            if entry.made is not None:
                weight -= entry.weight
                beyond.append(key)
        return self._take_out(beyond)

    def _take_out(self, keys: Iterable[_Key]) -> list[tuple[_Key, _Value]]:
        """The values that are made; who makes one of the others tells of it once it is."""
        dropped = []
        for key in keys:
            entry = self._entries.pop(key, None)
            if entry is not None and entry.made is not None:
                self.weight -= entry.weight
                dropped.append((key, entry.made[0]))
        return dropped

    def _tell(self, dropped: list[tuple[_Key, _Value]]) -> None:
        for key, value in dropped:
            self._on_drop(key, value)
