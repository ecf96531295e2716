"""Results with fields of their own <-> lines of JSON; what was measured before, at other sizes, stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from benchmarks.timing import RESULTS

Line = TypeVar("Line")


@dataclass(frozen=True)
class Store(Generic[Line]):
    """A file of results of one kind; some of their fields tell them apart."""

    name: str
    kind: type[Line]
    key: tuple[str, ...]

    def load(self) -> list[Line]:
        path = RESULTS / f"{self.name}.jsonl"
        return (
            [self.kind(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
        )

    def add(self, lines: Sequence[Line]) -> None:
        kept = {tuple(getattr(line, k) for k in self.key): line for line in (*self.load(), *lines)}
        texts = [json.dumps(asdict(line)) + "\n" for line in kept.values()]  # type: ignore[call-overload]
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{self.name}.jsonl").write_text("".join(texts))
