"""`make bench`: run the benchmarks, keep their results, print them as one table."""

from __future__ import annotations

import argparse

from benchmarks import bulk, capture, commit, latency, matrix, render, scheduler, small


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which ones; without names, all of them")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the large benchmarks")
    parser.add_argument("--percent", type=float, nargs="*", default=[0.01, 0.1, 1, 10])
    parser.add_argument("--scenario", nargs="*", default=(), choices=list(matrix.SCENARIOS))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    runs = {
        "commit": lambda: commit.run(options.rounds),
        "capture": lambda: capture.run(options.rounds * 3),
        "latency": lambda: latency.run(options.rounds),
        "small": lambda: small.run(1_000_000, options.rounds),
        "bulk": lambda: bulk.run(options.rows, options.rounds),
        "scheduler": lambda: scheduler.run(options.rounds),
        "matrix": lambda: matrix.run(options.rows, options.percent, options.rounds, options.scenario),
    }
    for name in options.names or runs:
        runs[name]()
    render.show()
    matrix.show(matrix.load())


if __name__ == "__main__":
    main()
