"""`make bench`: run the benchmarks, keep their results, show them and write the page of them."""

from __future__ import annotations

import argparse

from benchmarks import (
    amplification,
    bulk,
    capture,
    commit,
    copy,
    dplusi,
    floor,
    lakes,
    latency,
    matrix,
    micro,
    nexmark_speed,
    peers,
    publish,
    render,
    scale,
    scheduler,
    small,
    tpch_speed,
)
from benchmarks.regions import SCENARIOS


def main() -> None:
    o = _options()
    rows, million, rounds = o.rows or 10_000_000, o.rows or 1_000_000, o.rounds or 5
    runs = {
        "commit": lambda: commit.run(rounds),
        "micro": lambda: micro.run(rounds),
        "amplification": amplification.run,
        "capture": lambda: capture.run(rounds * 3),
        "copy": lambda: copy.run(rows),
        "lakes": lambda: lakes.run(rows, rounds),
        "publish": lambda: publish.run(rows, rounds),
        "latency": lambda: latency.run(rounds),
        "small": lambda: small.run(million, rounds),
        "floor": lambda: floor.run(million, rounds, o.scenario),
        "dplusi": lambda: dplusi.run(million, rounds),
        "peers": lambda: peers.run(million, rounds, o.scenario),
        "bulk": lambda: bulk.run(rows, rounds),
        "scheduler": lambda: scheduler.run(rounds),
        "matrix": lambda: matrix.run(rows, o.percent, rounds, o.scenario),
        "scale": lambda: scale.run(o.sizes or (rows // 10, rows, 3 * rows), rounds),
        "tpch": lambda: tpch_speed.run(o.scale, o.percent, o.rounds or 3, o.query, o.mix),
        "nexmark": lambda: nexmark_speed.run(million, o.events, o.seconds, rounds, o.query),
    }
    for name in o.names or runs:
        runs[name]()
    render.show()
    render.write()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which ones; without names, all of them")
    parser.add_argument("--rows", type=int, help="rows of the tables; ten million or one unless told")
    parser.add_argument("--sizes", type=int, nargs="*", default=(), help="rows of scale, one after the other")
    parser.add_argument("--percent", type=float, nargs="*", default=[0.01, 0.1, 1, 10])
    parser.add_argument("--scenario", nargs="*", default=(), choices=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, help="5 unless told, 3 for TPC-H")
    parser.add_argument("--scale", type=float, default=0.1, help="scale factor of TPC-H")
    parser.add_argument("--mix", nargs="*", default=tpch_speed.MIXES, choices=tpch_speed.MIXES)
    parser.add_argument("--query", nargs="*", default=(), help="queries of TPC-H or Nexmark, such as q3")
    parser.add_argument("--events", type=int, default=1_000, help="events of a batch of Nexmark")
    parser.add_argument("--seconds", type=float, default=60, help="how long a query of Nexmark is fed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
