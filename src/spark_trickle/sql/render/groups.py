"""The change of groups -> SQL over the texts of what it is made of: changed rows, stored rows, sums."""

from __future__ import annotations

from collections.abc import Iterable

from spark_trickle.algebra.change_operators import Added, Counted, Fold, Partial, Shaken, Terms
from spark_trickle.algebra.operators import column
from spark_trickle.algebra.stateful_operators import Call
from spark_trickle.model.table import WEIGHT as W
from spark_trickle.sql.render.wide_decimals import write_minus, write_plus, write_zero


def _write_names(columns: Iterable[str]) -> str:
    return ", ".join(f"`{c}`" for c in columns)


def render_partial(op: Partial, rows: str) -> str:
    """What each group gains or loses."""
    sums = [
        f"coalesce({c.combine}({_sign_value(c, c.term.sql)}), {write_zero(c.type)}) AS `{c.name}`"
        for c in op.calls
        if c.term is not None and c.is_total
    ]
    sums += [f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in op.calls if c.again_if]
    # How many of the changed rows have the best value takes a second look at them, which few rows deserve.
    sums += [f"CAST(NULL AS BIGINT) AS `{c.name}`" for c in op.calls if c.ties_of]
    sums += [
        f"{c.pick}(CASE WHEN {W} {sign} 0 THEN {c.term.sql} END) AS `{name}`"
        for c in op.calls
        if c.term is not None and c.pick
        for sign, name in ((">", c.name), ("<", c.deleted))
    ]
    listed = [*(f"`{k.name}`" for k in op.keys), *sums, f"coalesce(sum({W}), 0) AS `{op.count}`"]
    keys = "".join(f", {k.expr.sql} AS `{k.name}`" for k in op.keys)
    group = f" GROUP BY {', '.join(f'`{k.name}`' for k in op.keys)}" if op.keys else ""
    return f"SELECT {', '.join(listed)} FROM (SELECT *{keys} FROM ({rows})){group}"


def render_terms(op: Terms, rows: str) -> str:
    """What each row adds to its group, or takes from it."""
    listed = [f"{k.expr.sql} AS `{k.name}`" for k in op.keys]
    listed += [f"{_sign_value(c, c.term.sql)} AS `{c.name}`" for c in op.calls if c.term is not None]
    return f"SELECT {', '.join([*listed, f'{W} AS `{op.count}`'])} FROM ({rows})"


def render_added(op: Added, terms: str, own: str) -> str:
    """Each key gives the row that goes and the row that comes."""
    totals = (*op.sums, Call(op.count, column(op.count), type="BIGINT"))
    names, keys = tuple(c.name for c in totals), [f"`{k}`" for k in op.keys]
    stored = [
        f"{_sign_value(c, f'`{c.name}`') if op.own.weighted else f'`{c.name}`'} AS `{c.name}`" for c in totals
    ]
    both = (
        f"SELECT {_write_names((*op.keys, *names))}, 1 AS fresh FROM ({terms}) UNION ALL "
        f"SELECT {', '.join([*keys, *stored])}, 0 AS fresh FROM ({own})"
    )
    if op.here:
        both = f"SELECT /*+ COALESCE(1) */ * FROM ({both})"
    sums = [
        f"coalesce({c.combine}({value}), {write_zero(c.type)}) AS `{when}_{c.name}`"
        for c in totals
        for when, value in (("was", f"CASE WHEN fresh = 0 THEN `{c.name}` END"), ("is", f"`{c.name}`"))
    ]
    group = f"GROUP BY {', '.join(keys)} " if keys else ""
    summed = f"SELECT {', '.join([*keys, *sums])} FROM ({both}) {group}HAVING max(fresh) = 1"
    shown = [
        f"CAST(CASE WHEN sign < 0 THEN `was_{c.name}` ELSE `is_{c.name}` END AS {c.type}) AS `{c.name}`"
        for c in totals
    ]
    moved = " OR ".join(f"`was_{n}` <> `is_{n}`" for n in names)
    there, comes = (f"`{when}_{op.count}` > 0" if keys else "true" for when in ("was", "is"))
    return (
        f"SELECT {', '.join([*keys, *shown])}, sign AS {W} FROM ({summed}) "
        f"LATERAL VIEW explode(array(-1, 1)) signs AS sign "
        f"WHERE ({moved}) AND ((sign < 0 AND {there}) OR (sign > 0 AND {comes}))"
    )


def _sign_value(call: Call, value: str) -> str:
    """What a row adds, or takes away; bit_xor does the same in both cases."""
    if call.combine != "sum":
        return value
    return f"CASE WHEN {W} > 0 THEN {value} ELSE {write_minus(value, call.type)} END"


def _fold_value(call: Call) -> str:
    """What was, or what is: a sum of both, or the better of both."""
    was, comes = f"own.`{call.name}`", f"part.`{call.name}`"
    if call.pick:
        better = "least" if call.pick == "min" else "greatest"
        return f"CASE WHEN sign < 0 THEN {was} ELSE {better}({was}, {comes}) END"
    if call.again_if:  # the group has only values that its sums hold
        return f"CASE WHEN sign < 0 THEN {was} END"
    before = f"coalesce({was}, {write_zero(call.type)})"
    total = write_plus(before, comes, call.type) if call.combine == "sum" else f"{before} ^ {comes}"
    return f"CASE WHEN sign < 0 THEN {was} ELSE {total} END"


def _count_tied(call: Call, op: Fold) -> str:
    """A better value has one row at least. Otherwise none of those that had the best one went."""
    pick = next(c for c in op.sums if c.name == call.ties_of)
    was, comes = f"own.`{pick.name}`", f"part.`{pick.name}`"
    better = f"{comes} IS NOT NULL AND ({was} IS NULL OR {comes} {'<' if pick.pick == 'min' else '>'} {was})"
    kept = f"coalesce(own.`{call.name}`, 0)"
    return f"CASE WHEN sign < 0 THEN own.`{call.name}` WHEN {better} THEN 1 ELSE {kept} END"


def render_counted(op: Counted, groups: str, rows: str) -> str:
    """The groups first, then each of their best values among the rows."""
    made, ties = op.input, {c.ties_of: c.name for c in op.input.calls if c.ties_of}
    keys = [k.name for k in made.keys]
    named = "".join(f", {k.expr.sql} AS `{k.name}`" for k in made.keys)
    keyed, text = f"SELECT *{named} FROM ({rows})", groups
    for pick in made.calls:
        if pick.name not in ties or pick.term is None:
            continue
        same = [*(f"best.`{k}` <=> every.`{k}`" for k in keys), f"best.`{pick.name}` = every.trickle_value"]
        each = ", ".join([*(f"`{k}`" for k in keys), f"{pick.term.sql} AS trickle_value"])
        others = [c for c in made.columns if c not in keys and c != ties[pick.name]]
        shown = [*(f"best.`{k}`" for k in keys), *(f"any_value(best.`{c}`) AS `{c}`" for c in others)]
        group = f" GROUP BY {', '.join(f'best.`{k}`' for k in keys)}" if keys else ""
        text = (
            f"SELECT {', '.join(shown)}, count(every.trickle_value) AS `{ties[pick.name]}` "
            f"FROM ({text}) AS best LEFT JOIN (SELECT {each} FROM ({keyed})) AS every "
            f"ON {' AND '.join(same)}{group}"
        )
    return f"SELECT {_write_names(op.columns)} FROM ({text})"


def render_shaken(op: Shaken, part: str, own: str) -> str:
    """The keys of groups in which what goes reaches the extremum, or which have values beside their sums."""
    same = " AND ".join(f"part.`{k}` <=> own.`{k}`" for k in op.keys) or "true"
    tests = [
        f"(part.`{c.deleted}` IS NOT NULL AND (own.`{c.name}` IS NULL OR part.`{c.deleted}` "
        f"{'<=' if c.pick == 'min' else '>='} own.`{c.name}`))"
        for c in op.picks
    ]
    tests += [f"coalesce(own.`{n}`, 0) + part.`{n}` > 0" for n in op.left_out]
    listed = ", ".join(f"part.`{k}` AS k{n}" for n, k in enumerate(op.keys)) or "1 AS nothing"
    return (
        f"SELECT {listed} FROM ({part}) AS part LEFT JOIN ({own}) AS own ON {same} WHERE {' OR '.join(tests)}"
    )


def render_folded(op: Fold, part: str, own: str) -> str:
    """One join with the own rows; each pair gives the row that goes and the row that comes."""
    there = f"own.`{op.count}` IS NOT NULL"
    total = f"coalesce(own.`{op.count}`, 0) + part.`{op.count}`"
    keys = [f"CASE WHEN {there} THEN own.`{k}` ELSE part.`{k}` END AS `{k}`" for k in op.keys]
    moves = [_count_tied(c, op) if c.ties_of else _fold_value(c) for c in op.sums]
    sums = [f"CAST({m} AS {c.type}) AS `{c.name}`" for m, c in zip(moves, op.sums, strict=True)]
    count = f"CASE WHEN sign < 0 THEN own.`{op.count}` ELSE CAST({total} AS BIGINT) END AS `{op.count}`"
    same = " AND ".join(f"part.`{k}` <=> own.`{k}`" for k in op.keys)
    join = f"LEFT JOIN ({own}) AS own ON {same}" if op.keys else f"CROSS JOIN ({own}) AS own"
    moved = " OR ".join(
        [f"part.`{n}` <> 0" for n in (op.count, *(c.name for c in op.sums if c.is_total))]
        + [f"part.`{c.name}` IS NOT NULL" for c in op.sums if c.pick]
    )
    comes = f"{total} > 0" if op.keys else "true"
    return (
        f"SELECT {', '.join([*keys, *sums, count])}, sign AS {W} FROM ({part}) AS part {join} "
        f"CROSS JOIN (SELECT -1 AS sign UNION ALL SELECT 1 AS sign) AS both "
        f"WHERE ({moved}) AND ((sign < 0 AND {there}) OR (sign > 0 AND {comes}))"
    )
