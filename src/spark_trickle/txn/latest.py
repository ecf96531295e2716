"""Values that take long to make -> the last few of them, by what they were made from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class _Entry(Generic[_Value]):
    """A value that is made by the first who asks; others wait for it, and for no other."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: tuple[_Value] | None = None

    def get(self, make: Callable[[], _Value]) -> _Value:
        with self._lock:
            if self._made is None:
                self._made = (make(),)
            return self._made[0]


class Latest(Generic[_Value]):
    """The values that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[tuple[object, ...], _Entry[_Value]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[object, ...], make: Callable[[], _Value]) -> _Value:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return entry.get(make)
