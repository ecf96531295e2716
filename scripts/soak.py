"""A shop under load for minutes -> whether it stayed exact, never refreshed in full, in bounded memory.

python scripts/soak.py --minutes 30
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from spark_trickle import connect
from spark_trickle.cli.shop import NAMES, STREAM_TABLES, TABLES, Shop, first_rows
from spark_trickle.session import Trickle

_ORDERS = 5_000
_MOST_FILES_A_TABLE = 200
_MOST_GROWTH = 1.5  # of this process after the first quarter


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--path", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trickle-soak-") as made:
        place = chosen.path or Path(made) / "warehouse"
        with connect(place) as tr:
            found = soak(tr, place, chosen.minutes * 60)
    print(json.dumps(found, indent=2))
    return 0 if found["exact"] and found["bounded"] else 1


def soak(tr: Trickle, place: Path, seconds: float) -> dict[str, object]:
    for statement in (*TABLES, *first_rows(_ORDERS), *STREAM_TABLES):
        tr.sql(statement)
    shop, start, commits = Shop(_ORDERS, random.Random(11)), time.monotonic(), 0
    memory: list[float] = []
    said = 0.0
    with connect(place, spark=tr.spark) as writer, tr.scheduler():
        while (gone := time.monotonic() - start) < seconds:
            with writer.transaction():
                for statement in shop.next_statements():
                    writer.sql(statement)
            commits += 1
            memory.append(_megabytes())
            if gone - said > 30:
                said = gone
                print(f"{gone:.0f} s: {commits} commits, {memory[-1]:.0f} MB", file=sys.stderr, flush=True)
    drained = tr.drain(300)
    wrong = {n: tr.sql(f"SELECT * FROM trickle.audit('{n}')").count() for n in NAMES}
    stats = {r["name"]: r for r in tr.answer("refresh_stats").dicts()}
    files = {t: tr.sql(f"SELECT * FROM trickle.files('{t}')").count() for t in ("orders", "items", *NAMES)}
    growth = memory[-1] / memory[len(memory) // 4] if memory else 1.0
    return {
        "commits": commits,
        "refreshes": sum(r["refreshes"] for r in stats.values()),
        "full": sum(r["full"] for r in stats.values()) - len(NAMES),  # each was filled once
        "errors": sum(r["errors"] for r in stats.values()),
        "differing_rows": wrong,
        "files": files,
        "memory_growth": round(growth, 2),
        "exact": drained and not any(wrong.values()) and all(r["full"] == 1 for r in stats.values()),
        "bounded": growth <= _MOST_GROWTH and max(files.values()) <= _MOST_FILES_A_TABLE,
    }


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
