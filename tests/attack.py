"""Attack warehouses, and sources with copies of warehouses beside them, for as long as one likes.

python -m tests.attack --minutes 60 --seed 7
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.crash.attack import run_attack
from tests.postgres.server import Server, new_server
from tests.sources.attack import run_source_attack

MODES = ("trigger", "wal", "auto")
STEPS, SOURCE_STEPS = 80, 30


def run_for(seconds: float, seed: int, server: Server) -> Counter[str]:
    end, total = time.monotonic() + seconds, Counter[str]()
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            total += run_attack(Path(folder), seed, STEPS, end - time.monotonic())
        mode = MODES[seed % len(MODES)]
        with tempfile.TemporaryDirectory() as folder:
            done = run_source_attack(Path(folder), server, mode, seed, SOURCE_STEPS)
        total += Counter({f"{mode}: {what}": times for what, times in done.items()})
        print(f"seed {seed}: exact or refused; {sum(total.values())} so far", flush=True)
        seed += 1
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    server = new_server()
    try:
        found = run_for(60 * given.minutes, given.seed, server)
    finally:
        server.remove()
    for what, times in sorted(found.items()):
        print(f"{times:6} {what}")
