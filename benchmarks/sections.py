"""Kept results -> tables: what was measured, line by line, and which lines miss their bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log

from benchmarks import amplification, matrix, nexmark_speed, scale, tpch_speed
from benchmarks.contest import Cell
from benchmarks.regions import SCENARIOS
from benchmarks.timing import Ratio, load_all

Row = tuple[str, ...]
_TITLES = {
    "bulk": "Loading and reading many rows",
    "capture": "What capture costs an application in PostgreSQL",
    "commit": "The catalog part of a commit",
    "dplusi": "Changes as deletes and inserts",
    "floor": "One changed row",
    "lakes": "Delta tables in place",
    "latency": "From PostgreSQL to a stream table",
    "micro": "Steps without Spark",
    "publish": "Published Delta tables",
    "peers": "Other ways to keep the same views",
    "scheduler": "The scheduler",
    "small": "Ten rows of a million",
}
_BESIDE = "Ratios of medians, measured side by side."
_TEXTS = {
    "peers": (
        "The time of another system ÷ the time of spark-trickle: below 1×, in bold, the other system is "
        "faster. This happens where the result has only a few groups. DuckDB reads two columns of a million "
        "rows in its own process in less time than a refresh takes to read the catalog, add the change to "
        "the stored sums, write two small files and commit. MERGE into Delta Lake gets a change that its "
        "user worked out by hand, and writes five rows. The work of DuckDB and PostgreSQL grows with the "
        "table, and that of spark-trickle does not (see the growing table above)."
    )
}


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    headers: Row
    rows: Sequence[Row]
    missed: frozenset[int] = field(default_factory=frozenset)  # rows that miss their bar


def _times(ratio: float) -> str:
    """What is slower by far must not look like nothing."""
    return f"{ratio:.1f}×" if ratio >= 1 else f"{ratio:.2f}×"


def sections() -> list[Section]:
    made = [
        _matrix(),
        *_tpch(),
        _nexmark(),
        _scale(),
        _amplification(),
        *(_ratios(n, found) for n, found in load_all().items()),
    ]
    return [s for s in made if s.rows]


def _headers(names: str) -> Row:
    return tuple(names.split(" | "))


def ordered(cells: Sequence[Cell]) -> list[Cell]:
    places = list(SCENARIOS)
    return sorted(cells, key=lambda c: (c.rows, c.percent, places.index(c.scenario)))


def _matrix() -> Section:
    rows, missed = [], set()
    for number, c in enumerate(ordered(matrix.STORE.load())):
        bar = matrix.bar_of(c)
        if c.speed_up < (bar or 1):
            missed.add(number)
        rows.append(
            (
                f"{c.rows:,}",
                f"{c.percent:g}%",
                c.scenario,
                _times(c.speed_up),
                f"≥ {bar:g}×" if bar else "",
                _spread(c.spread),
                _times(c.own_full_ms / c.differential_ms) if c.own_full_ms else "",
                c.chosen,
                f"{c.regret:.2f}" if c.regret else "",
                str(c.rounds),
            )
        )
    return Section(
        "The matrix",
        "A differential refresh, compared with the same query by plain Spark from Parquet to Parquet (full), "
        "and with a full refresh of spark-trickle (own full). Regret is the mean time of the refresh that "
        "AUTO chooses, including compaction, ÷ the time of the better of the two. In cte, each changed row "
        "changes the total of its region, and so every row of that region; in window, it changes the "
        "numbers of all rows after it. There the change is larger than the result, and AUTO computes "
        "everything once it has counted the change.",
        _headers(
            "rows | changed | scenario | full ÷ differential | bar | spread | "
            "own full ÷ differential | AUTO | regret | rounds"
        ),
        rows,
        frozenset(missed),
    )


def _tpch() -> list[Section]:
    """One table for each size: a line for each query, a column for each way to change the tables."""
    cells = tpch_speed.STORE.load()
    return [_tpch_at(size, [c for c in cells if c.rows == size]) for size in sorted({c.rows for c in cells})]


def _tpch_at(size: int, cells: Sequence[Cell]) -> Section:
    ways = sorted({(c.mix, c.percent) for c in cells})
    found = {(c.scenario, c.mix, c.percent): c for c in cells}
    rows = []
    for query in sorted({c.scenario for c in cells}):
        line = [found.get((query, *way)) for way in ways]
        rows.append((query, *(_speed(c) for c in line)))
    means = [mean_speed_up([c for c in cells if (c.mix, c.percent) == way]) for way in ways]
    rows.append(("geometric mean", *(f"{m:.2f}×" for m in means)))
    return Section(
        f"TPC-H, {size:,} rows in all",
        "Full recomputation by plain Spark ÷ differential refresh. F: AUTO chooses a full refresh; its "
        "regret follows if it is more than a tenth. –: nothing that the query reads had changed.",
        ("query", *(f"{mix}, {percent:g}%" for mix, percent in ways)),
        rows,
    )


def _speed(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    regret = f" (regret {cell.regret:.1f})" if cell.regret and cell.regret > 1.1 else ""
    return f"{cell.speed_up:.2f}×{' F' if cell.chosen == 'FULL' else ''}{regret}"


def mean_speed_up(cells: Sequence[Cell]) -> float:
    logs = [log(c.speed_up) for c in cells]
    return exp(sum(logs) / len(logs)) if logs else 1.0


def _nexmark() -> Section:
    return Section(
        "Nexmark",
        "Events per second that are written and refreshed, batch after batch. Growth is the time of a batch "
        "in the last quarter of the run ÷ that in the second quarter: near 1, the lag is bounded.",
        _headers(
            "query | events before | a batch | batches | events a second | refresh alone | growth | "
            "full ÷ refresh | spread"
        ),
        [
            (
                s.query,
                f"{s.start:,}",
                f"{s.events:,}",
                str(s.batches),
                f"{s.per_second:,.0f}",
                f"{1000 * s.events / s.batch_ms:,.0f}",
                f"{s.growth:.2f}",
                f"{s.speed_up:.1f}×",
                _spread(s.spread),
            )
            for s in sorted(nexmark_speed.STORE.load(), key=lambda s: (s.start, s.events, s.query))
        ],
    )


def _scale() -> Section:
    found = scale.STORE.load()
    smallest = {s.scenario: s for s in sorted(found, key=lambda s: -s.rows)}
    return Section(
        "A fixed change of a growing table",
        "The cost of a refresh ÷ its cost at the smallest size, full recomputation by plain Spark ÷ the "
        "refresh, the size of what the stream table stores ÷ the size of its sources, and the memory of the "
        "driver.",
        _headers(
            "scenario | rows | changed | cost ÷ smallest | full ÷ differential | "
            "spread | state ÷ data | Python, MB | JVM, MB"
        ),
        [
            (
                s.scenario,
                f"{s.rows:,}",
                f"{s.changed:,}",
                f"{s.differential_ms / smallest[s.scenario].differential_ms:.2f}×",
                f"{s.full_ms / s.differential_ms:.1f}×",
                _spread(s.spread),
                f"{s.state_bytes / s.data_bytes:.2f}",
                f"{s.python_mb:,.0f}",
                f"{s.jvm_mb:,.0f}",
            )
            for s in sorted(found, key=lambda s: (scale.NAMES.index(s.scenario), s.rows))
        ],
    )


def _amplification() -> Section:
    found = amplification.STORE.load()
    plain = {line.workload: line for line in found if line.mode == "none"}
    return Section(
        "What capture makes a PostgreSQL server write",
        f"For each of {amplification.CHANGED:,} changed rows: bytes of write-ahead log, and the same ÷ that "
        "without capture; bytes of log that reading a buffer and deleting its rows adds; dead rows that "
        "VACUUM has to remove from the table and its buffer; growth of the indexes of the table; and bytes "
        "in the buffer until it is read. A buffer has no index. Full-page images after a checkpoint are "
        "left out.",
        _headers(
            "workload | capture | log, bytes | ÷ none | log of reading | "
            "dead rows | index, bytes | buffer, bytes"
        ),
        [
            (
                line.workload,
                line.mode,
                f"{line.wal:,.0f}",
                _times(line.wal / plain[line.workload].wal),
                f"{line.read_wal:,.0f}",
                f"{line.dead_rows:.1f}",
                f"{line.index_bytes:,.0f}",
                f"{line.buffer_bytes:,.0f}",
            )
            for line in found
        ],
    )


def _ratios(name: str, lines: Sequence[Ratio]) -> Section:
    detailed = any(line.detail for line in lines)
    headers = ("benchmark", "what", "against", "ratio", "bar", "spread", "rounds", *(("detail",) * detailed))
    missed = {n for n, line in enumerate(lines) if _is_missed(name, line)}
    rows = [(*_ratio(line), *((_detail(line.detail),) * detailed)) for line in lines]
    return Section(_TITLES.get(name, name), _TEXTS.get(name, _BESIDE), headers, rows, frozenset(missed))


def _is_missed(name: str, line: Ratio) -> bool:
    if name == "peers":
        return line.ratio < 1
    return line.bar is not None and line.ratio > line.bar


def _ratio(line: Ratio) -> Row:
    return (
        line.benchmark,
        line.what,
        line.baseline,
        f"{line.ratio:.2f}×",
        "" if line.bar is None else f"≤ {line.bar:g}×",
        _spread(line.spread),
        str(line.rounds),
    )


def _detail(detail: dict[str, float] | None) -> str:
    return ", ".join(f"{name} {value:,.10g}" for name, value in (detail or {}).items())


def _spread(spread: float) -> str:
    return f"±{spread / 2:.0%}"
