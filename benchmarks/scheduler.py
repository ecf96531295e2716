"""The scheduler: what a round costs when nothing changed, how changes travel, what sharing brings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import spark_trickle
from benchmarks.timing import Ratio, race, ratio, save
from spark_trickle.model.stream import RefreshReport
from spark_trickle.session import Trickle

_QUICK = {"min_schedule_seconds": 0.01, "default_schedule_seconds": 0.01, "auto_backoff": False}


def run(rounds: int) -> list[Ratio]:
    lines = [
        *_idle(100, rounds),
        *_shared(rounds, "at the driver", "a", None),
        *_shared(rounds, "by Spark", "abs(a)", 0.9),
        *_travel(rounds),
        *_crowd(rounds),
    ]
    save("scheduler", lines)
    return lines


def _connected(folder: str, **settings: object) -> Trickle:
    return spark_trickle.connect(f"{folder}/warehouse", settings={**_QUICK, **settings})


def _bare(tr: Trickle) -> Callable[[], object]:
    return lambda: tr.spark.sql("SELECT 1").collect()


def _idle(tables: int, rounds: int) -> list[Ratio]:
    """A round in which nothing is due, against the smallest Spark job there is."""
    with tempfile.TemporaryDirectory() as folder, _connected(folder) as tr:
        tr.sql("CREATE TABLE t (a INT, b INT)")
        for n in range(tables):
            tr.sql(f"CREATE STREAM TABLE s{n} AS SELECT a, b FROM t WHERE b > {n}")
        scheduler = tr.scheduler()
        measured = race({"SELECT 1": _bare(tr), "a round": scheduler.tick}, rounds * 3, warm_up=3)
        return [ratio(f"nothing changed, {tables} stream tables", measured["a round"], measured["SELECT 1"])]


def _fifty(folder: str, value: str, **settings: object) -> Trickle:
    """Fifty stream tables over five tables."""
    tr = _connected(folder, **settings)
    for t in range(5):
        tr.sql(f"CREATE TABLE t{t} (a INT, b INT)")
        tr.sql(f"INSERT INTO t{t} SELECT id, id % 10 FROM range(10000)")
    for n in range(50):
        tr.sql(f"CREATE STREAM TABLE s{n} AS SELECT b, sum({value}) AS s FROM t{n % 5} GROUP BY b")
    return tr


def _once(tr: Trickle, shared: bool) -> None:
    """A change of each table reaches all fifty in one round."""
    for t in range(5):
        tr.sql(f"INSERT INTO t{t} SELECT id, 1 FROM range(2000)")
    before, scheduler = tr._connection.place.views.made["change"], tr.scheduler()
    refresh = scheduler.refresh

    def alone(ids: tuple[int, ...], waited: float | None) -> list[RefreshReport]:
        tr._connection.place.views.clear()  # so that no refresh finds what another one has read
        return refresh(ids, waited)

    scheduler.refresh = refresh if shared else alone
    assert len(scheduler.tick().reports) == 50
    assert tr._connection.place.views.made["change"] - before == (5 if shared else 50)


def _shared(rounds: int, where: str, value: str, bar: float | None) -> list[Ratio]:
    """One scan of each change against one for each reader; one worker against two.

    Rows that are at the driver cost next to nothing to read again; a scan by Spark does not.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        _fifty(f"{folder}/1", value, max_concurrent_refreshes=1) as one,
        _fifty(f"{folder}/2", value, max_concurrent_refreshes=2) as two,
        _fifty(f"{folder}/3", value, max_concurrent_refreshes=1, cache_megabytes=0.0) as apart,
    ):
        contenders = {
            "one scan a table": lambda: _once(one, True),
            "two workers": lambda: _once(two, True),
            "one scan a reader": lambda: _once(apart, False),
        }
        measured = race(contenders, rounds, warm_up=2)
    alone, name = measured["one scan a table"], f"50 stream tables over 5 tables, {where}"
    return [
        ratio(name, alone, measured["one scan a reader"], bar),
        ratio(name, measured["two workers"], alone, 1.0),
    ]


def _travel(rounds: int) -> list[Ratio]:
    """From a commit until everything above it is fresh, against as many refreshes by hand."""
    lines, number = [], iter(range(10_000, 10**6))
    shapes = {
        "a chain of 10": [(n, [n - 1] if n else []) for n in range(10)],
        "3 layers of 20": [(n, [n - 20] if n >= 20 else []) for n in range(60)],
        "a diamond of 4": [(0, []), (1, [0]), (2, [0]), (3, [1, 2])],
    }
    for name, shape in shapes.items():
        with tempfile.TemporaryDirectory() as folder, _connected(folder) as tr:
            tr.sql("CREATE TABLE t (a INT, b INT)")
            tr.sql("INSERT INTO t SELECT id, id % 10 FROM range(1000)")
            for n, reads in shape:
                sources = [f"s{r}" for r in reads] or ["t"]
                joined = sources[0] if len(sources) == 1 else f"{sources[0]} JOIN {sources[1]} USING (a)"
                tr.sql(f"CREATE STREAM TABLE s{n} AS SELECT {sources[0]}.a AS a FROM {joined}")

            def by_scheduler(tr: Trickle = tr) -> None:
                tr.sql(f"INSERT INTO t VALUES ({next(number)}, 1)")
                assert tr.drain()

            def by_hand(tr: Trickle = tr, shape: list[tuple[int, list[int]]] = shape) -> None:
                tr.sql(f"INSERT INTO t VALUES ({next(number)}, 1)")
                for n, _ in shape:
                    tr.refresh(f"s{n}")

            def together(tr: Trickle = tr) -> None:
                tr.sql(f"INSERT INTO t VALUES ({next(number)}, 1)")
                tr.refresh_all()

            contenders = {"one by one": by_hand, "scheduler": by_scheduler, "refresh_all": together}
            measured = race(contenders, rounds, warm_up=2)
            base = measured["one by one"]
            lines += [ratio(name, measured[c], base) for c in ("scheduler", "refresh_all")]
    return lines


def _crowd(rounds: int, tables: int = 500) -> list[Ratio]:
    """A round over very many stream tables, none of which is due."""
    with tempfile.TemporaryDirectory() as folder, _connected(folder) as tr:
        tr.sql("CREATE TABLE t (a INT, b INT)")
        for n in range(tables):
            tr.create_stream_table(f"s{n}", f"SELECT a FROM t WHERE b > {n}", initialize=False)
        tr.pause_all()
        scheduler = tr.scheduler()
        measured = race({"SELECT 1": _bare(tr), "a round": scheduler.tick}, rounds * 3, warm_up=3)
        return [ratio(f"paused, {tables} stream tables", measured["a round"], measured["SELECT 1"])]
