"""Values that take long to make -> the last few of them, by what they were made from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Latest(Generic[_Value]):
    """The values that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[tuple[object, ...], _Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[object, ...], make: Callable[[], _Value]) -> _Value:
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
                if len(self._values) > self._most:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]
