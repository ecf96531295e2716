"""Delta rules broken on purpose: each must make a law fail, or the laws do not guard that rule."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """What is broken, where, and how."""

    name: str
    file: str
    old: str
    new: str


JOIN, STATE, TOUCHED = "delta/differentiate.py", "delta/stateful.py", "delta/touched.py"
RECURSIVE = "delta/recursive.py"
RENDER, GROUPS = "sql/render/query.py", "sql/render/groups.py"
AGGREGATE, SUBQUERY = "sql/bind/aggregate.py", "sql/bind/subquery.py"
SUMS, STATISTICS = "sql/bind/sums.py", "sql/bind/statistics.py"
ARROW, ORDER, SET = "arrow/", "plan/join_order.py", "sql/bind/set_operations.py"
BIND_JOIN, GIVEN = "sql/bind/join.py", "sql/bind/given.py"
ON, PIVOT = "sql/bind/on_clause.py", "sql/bind/pivot.py"

MUTANTS = (
    Mutant("inner join pairs ΔL with the old right side", JOIN, "left=left, right=op.right.at(At.NEW)))", "left=left, right=op.right.at(At.OLD)))"),
    Mutant("inner join pairs ΔR with the new left side", JOIN, "left=op.left.at(At.OLD), right=right", "left=op.left.at(At.NEW), right=right"),
    Mutant("inner join forgets changes of the left side", JOIN, "    if left is not None:\n        terms.append", "    if left is not None and right is None:\n        terms.append"),
    Mutant("inner join forgets changes of the right side", JOIN, "    if right is not None:\n        terms.append", "    if right is not None and left is None:\n        terms.append"),
    Mutant("outer joins ignore keys touched on the right", JOIN, "keys = collect_touched_keys((left, lefts), (right, rights))\n\n    def join_touched", "keys = collect_touched_keys((left if left is not None else right, lefts if left is not None else rights))\n\n    def joined"),
    Mutant("full join is linear while only the left changes", JOIN, "if right is None and op.kind is not JoinKind.FULL:", "if right is None:"),
    Mutant("one-sided join reads the left side instead of its change", JOIN, "return replace(op, left=left, right=op.right.at(At.NEW))", "return replace(op, left=left, right=op.right.at(At.OLD)) if op.kind is JoinKind.LEFT and False else __import__('spark_trickle.algebra.operators', fromlist=['Signed']).Signed(replace(op, left=op.left.at(At.NEW), right=op.right.at(At.NEW)), 1)"),
    Mutant("set operations ignore the right side", JOIN, "keys = collect_touched_keys((left, lefts), (right, rights))\n\n    def combine_touched", "keys = collect_touched_keys((left, lefts) if left is not None else (right, rights))\n\n    def combined"),
    Mutant("INTERSECT and EXCEPT lose NULLs", SET, "KeyPair(column(one), column(other), True) for one, other in pairs", "KeyPair(column(one), column(other), False) for one, other in pairs"),
    Mutant("INTERSECT and EXCEPT keep what repeats", SET, "left = first if _is_distinct(first, env) else distinct_rows(first, env)", "left = first"),
    Mutant("EXCEPT is INTERSECT", SET, "JoinKind.SEMI if both else JoinKind.ANTI, keys)", "JoinKind.SEMI, keys)"),
    Mutant("union forgets a part", JOIN, "found = tuple(d for d in deltas if d is not None)", "found = tuple(d for d in deltas if d is not None)[:1]"),
    Mutant("the old rows are not taken away", TOUCHED, "Signed(old, -1)", "Signed(old, 1)"),
    Mutant("the new rows are taken away", TOUCHED, "Signed(new, 1)", "Signed(new, -1)"),
    Mutant("before and after are the same moment", TOUCHED, "subtract(build(At.NEW), build(At.OLD))", "subtract(build(At.NEW), build(At.NEW))"),
    Mutant("groups are computed from the old input", STATE, "new = replace(op, input=restrict_to_keys(op.input.at(At.NEW), exprs, keys))", "new = replace(op, input=restrict_to_keys(op.input.at(At.OLD), exprs, keys))"),
    Mutant("partitions are computed from the old input", STATE, "new = replace(op, input=restrict_to_keys(op.input.at(At.NEW), op.partition, keys))", "new = replace(op, input=restrict_to_keys(op.input.at(At.OLD), op.partition, keys))"),
    Mutant("a window that is shown whole has columns by their place", STATE, "tuple((c, names[c]) for c in op.input.columns)", "tuple(zip(op.input.columns, own.columns, strict=True))"),
    Mutant("a window is shown whole by as many columns", "plan/split.py", "sorted(inner.values()) != sorted(node.plan.columns)", "len(inner) != len(node.plan.columns)"),
    Mutant("the first rows are chosen from the old input", STATE, "replace(op, input=op.input.at(At.NEW)), own.at(At.OLD)", "replace(op, input=op.input.at(At.OLD)), own.at(At.OLD)"),
    Mutant("a recursion is not computed again", RECURSIVE, "return subtract(op.at(At.NEW), own.at(At.OLD))", "return subtract(op.at(At.OLD), own.at(At.OLD))"),
    Mutant("a step that is not linear is followed", STATE, "    if find_obstacle(op):", "    if not op.sources:"),
    Mutant("a change of the start leads nowhere", RECURSIVE, "for d in (base, shift) if d is not None", "for d in (shift if shift is not None else base,) if d is not None"),
    Mutant("a change of the step is forgotten beside one of the start", RECURSIVE, "for d in (base, shift) if d is not None", "for d in (base if base is not None else shift,) if d is not None"),
    Mutant("a change is followed by the old step", RECURSIVE, "step = _replace_scans(op.step.at(At.NEW), last", "step = _replace_scans(op.step.at(At.OLD), last"),
    Mutant("old rows in a new circle hold each other up", RECURSIVE, "if moved else ()", "if not moved else ()"),
    Mutant("what goes takes nothing with it", RECURSIVE, "going = drop_rows_among(Different(before), deleted_rows)", "going = drop_rows_among(deleted_rows, deleted_rows)"),
    Mutant("what comes is followed by the old step", RECURSIVE, "for when in (At.OLD, At.NEW))", "for when in (At.OLD, At.OLD))"),
    Mutant("losses are set off against gains", RECURSIVE, "Half(_scan_rows(seeds, op, At.DELTA), -1)", "Half(Net(_scan_rows(seeds, op, At.DELTA)), -1)"),
    Mutant("gains are not set off against losses", RECURSIVE, "return Net(seed if shift is None else UnionAll((seed, Signed(shift, -1))), single=False)", "return seed"),
    Mutant("rows that go still lead to new ones", RECURSIVE, "UnionAll((seed, Signed(shift, -1)))", "seed"),
    Mutant("what went is never derived again", RECURSIVE, "(*_rederive_lost(op, own, deleted_rows), gained)", "(*_rederive_lost(op, own, deleted_rows)[:0], gained)"),
    Mutant("what went is not derived by the new step", RECURSIVE, "(*_rederive_lost(op, own, deleted_rows), gained)", "(*_rederive_lost(op, own, deleted_rows)[:1], gained)"),
    Mutant("what went derives itself again", RECURSIVE, "stay = drop_rows_among(own.at(At.OLD), deleted)", "stay = own.at(At.OLD)"),
    Mutant("what is stored comes again", RECURSIVE, "Assign(last, drop_rows_among(candidate_rows, UnionAll((there, inserted_rows))))", "Assign(last, drop_rows_among(candidate_rows, inserted_rows))"),
    Mutant("outer joins are narrowed on both sides", RECURSIVE, "right if kind is JoinKind.INNER else None", "right"),
    Mutant("the rows of a round are lost", "refresh/fixpoint.py", "    engine.add(rounds.found, rounds.last)\n", ""),
    Mutant("half a change is taken for a whole one", "refresh/fixpoint.py", "engine.put_answer(name, op.again)", "engine.put_answer(name, op.result)"),
    Mutant("a change turned round stays as it is", RENDER, 'f"{op.sign} * {W}"', 'f"{W}"'),
    Mutant("a group without rows stays", GROUPS, 'comes = f"{total} > 0" if op.keys else "true"', 'comes = "true"'),
    Mutant("a null key is no key", GROUPS, '<=> own.`{k}`" for k in op.keys)\n    join', '= own.`{k}`" for k in op.keys)\n    join'),
    Mutant("touched null keys are lost", RENDER, 'f"{e.sql} <=> k{n}"', 'f"{e.sql} = k{n}"'),
    Mutant("deleted rows are added to sums", GROUPS, "THEN {value} ELSE {write_minus(value, call.type)} END", "THEN {value} ELSE {value} END"),
    Mutant("counts ignore the weight", GROUPS, "coalesce(sum({W}), 0) AS `{op.count}`", "count(*) AS `{op.count}`"),
    Mutant("a change of sums without a change of count is lost", GROUPS, "for n in (op.count, *(c.name for c in op.sums if c.is_total))", "for n in (op.count,)"),
    Mutant("the stored sums are forgotten", GROUPS, "ELSE {total} END", "ELSE {comes} END"),
    Mutant("a log is read without its weights", GROUPS, "{_sign_value(c, f'`{c.name}`') if op.own.weighted else f'`{c.name}`'} AS `{c.name}`", "`{c.name}` AS `{c.name}`"),
    Mutant("a summed group without rows stays", GROUPS, 'if keys else "true" for when in ("was", "is")', 'if keys else "true" for when in ("was", "was")'),
    Mutant("what comes to a sum is forgotten", GROUPS, '("is", f"`{c.name}`"))', '("is", f"CASE WHEN fresh = 0 THEN `{c.name}` END"))'),
    Mutant("sums of many groups read the touched ones only half", "plan/arrange.py", "own=restrict_to_keys(op.own, keys, Keys(partial, keys))", "own=restrict_to_keys(op.own, keys[:0] + tuple(column(k) for k in op.keys[:0]), Keys(partial, keys)) if not op.keys else replace(op.own, moment=At.DELTA)"),
    Mutant("groups without distinct values are lost", AGGREGATE, "kind = JoinKind.LEFT if pairs else JoinKind.INNER", "kind = JoinKind.INNER"),
    Mutant("distinct values are counted as often as they are there", AGGREGATE, "inner = Aggregate(plan, (*keys, *named), (), fresh(\"n\"))", "inner = Project(plan, (*keys, *named))"),
    Mutant("a buffer never runs dry", RENDER, "(n < {op.least} AND held >= {op.least}) OR n > {op.most}", "n > {op.most}"),
    Mutant("rows beyond the buffer come into it", RENDER, "(later = 1 OR held < {op.need})", "true"),
    Mutant("a buffer with just enough rows is taken to have all", RENDER, "held < {op.need})", "held <= {op.need})"),
    Mutant("a buffer that has all rows does not take those that come", RENDER, "(later = 1 OR held < {op.need})", "later = 1"),
    Mutant("the ON of an outer join chooses among the rows that are kept", BIND_JOIN, "side = one if how.swapped else two\n    exprs", "side = two if how.swapped else one\n    exprs"),
    Mutant("rows that equal the last of the buffer are beyond it", RENDER, "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS later", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS later"),
    Mutant("an extremum that goes stays", GROUPS, "{'<=' if c.pick == 'min' else '>='}", "{'<' if c.pick == 'min' else '>'}"),
    Mutant("rows that lose the extremum are not counted", ARROW + "extrema.py", "pc.add(known, step), known)", "known, known)"),
    Mutant("a better value has as many rows as the one before", ARROW + "extrema.py", "told = pc.if_else(better, step,", "told = pc.if_else(better, pc.add(pc.coalesce(known, 0), step),"),
    Mutant("Spark adds the rows of a better value to those of the one before", GROUPS, "WHEN {better} THEN 1 ELSE", "WHEN {better} THEN 1 + {kept} ELSE"),
    Mutant("all rows of a group are counted as having its extremum", GROUPS, "f\"best.`{pick.name}` = every.trickle_value\"", "\"every.trickle_value IS NOT NULL\""),
    Mutant("what goes is trimmed away", ARROW + "groups.py", "else net_change(rows)", "else net_change(rows).filter(pc.greater(net_change(rows).column(WEIGHT), 0))"),
    Mutant("the worse of two values is kept", GROUPS, '"least" if call.pick', '"greatest" if call.pick'),
    Mutant("weights are dropped in unions", RENDER, "{f', {W}' if weighted else ''} FROM ({render(part)})", "{f', 1 AS {W}' if weighted else ''} FROM ({render(part)})"),
    Mutant("semi join counts its matches", RENDER, 'JoinKind.SEMI: "LEFT SEMI JOIN"', 'JoinKind.SEMI: "JOIN"'),
    Mutant("null-safe keys are compared with =", RENDER, "{'<=>' if k.null_safe else '='} {k.right.sql}", "= {k.right.sql}"),
    Mutant("a sum without values is 0", SUMS, "return read_sql(f\"CASE WHEN `{present}` > 0 THEN {made} END\", total, present)", "return read_sql(f\"{made}\", total, present)"),
    Mutant("count(x) counts nulls", AGGREGATE, 'all_of([allowed, *present])', 'allowed'),
    Mutant("NOT IN forgets nulls in the list", SUBQUERY, "And((column(whole), is_not_null(left)))", "is_not_null(left)"),
    Mutant("NOT IN forgets a null on the left", SUBQUERY, "And((column(whole), is_not_null(left)))", "column(whole)"),
    Mutant("IN is never unknown", SUBQUERY, 'exp.If(this=unknown, true=exp.Null())', 'exp.If(this=unknown, true=exp.Boolean(this=not answer))'),
    Mutant("two queries in FROM of a subquery are not for the same row", GIVEN, "return one, _rename_columns(two, new), tuple(KeyPair(column(n), column(new[n]), True) for n in names)", "return one, _rename_columns(two, new), ()"),
    Mutant("a row without a partner in FROM of a subquery is for no row around", GIVEN, "both.get(c) or column(c)", "column(c)"),
    Mutant("a subquery in ON pairs every value with every other", ON, "JoinKind.INNER, self.tie_keys(used))", "JoinKind.INNER, ())"),
    Mutant("a group without rows is left at the driver", ARROW + "sums.py", "chosen = pc.and_(moved, pc.greater(sums[op.count], 0)) if keys else moved", "chosen = moved"),
    Mutant("what goes is added at the driver", ARROW + "groups.py", "return pc.if_else(pc.greater(weight, 0), values, pc.negate_checked(values))", "return values"),
    Mutant("null is no key at the driver", ARROW + "joins.py", "        if null_safe:  #", "        if False:  #"),
    Mutant("a left join at the driver loses rows without a partner", ARROW + "joins.py", "    alone = left.filter(pc.invert(hit))", "    alone = left.filter(pc.invert(hit)).slice(0, 0 if op.kind is JoinKind.LEFT else None)"),
    Mutant("a group that loses its least value is not read again at the driver", ARROW + "extrema.py", "pc.invert(_is_better(c, was, deleted))", "_is_better(c, deleted, was)"),
    Mutant("the row that is shaken stays as it was at the driver", ARROW + "evaluate.py", "rows.filter(pc.invert(_find_hits(plan, rows, keys)))", "rows.filter(_find_hits(plan, rows, keys))"),
    Mutant("rows with null as a key are not looked up", ARROW + "restrict.py", "if not (null_safe and known.null_count):", "if True:"),
    Mutant("what equals the last row of a buffer is beyond it at the driver", ARROW + "top_k.py", "<= last))", "< last))"),
    Mutant("a full join at the driver loses strangers", ARROW + "joins.py", "    if op.kind is JoinKind.FULL:\n        strangers", "    if op.kind is JoinKind.FULL and left.num_rows:\n        strangers"),
    Mutant("alternatives lose what they do not share", "algebra/conditions.py", "if all(rest) else found", "if not rest else found"),
    Mutant("a column that only a condition needs is pruned", "algebra/prune.py", "below = _list_named_columns(op) | needed\n        case _:", "below = needed\n        case _:"),
    Mutant("a union without its first part is empty", ARROW + "reduce.py", "        if not parts:\n            return None", "        if not parts or self.reduced(op.parts[0]) is None:\n            return None"),
    Mutant("a condition over two tables is lost with the order", ORDER, "JoinKind.INNER, tuple(keys.values()), residual, broadcast=broadcast", "JoinKind.INNER, tuple(keys.values()), None, broadcast=broadcast"),
    Mutant("null equals nothing after the order changed", ORDER, "found[c] = KeyPair(a, b, c.pair.null_safe)", "found[c] = KeyPair(a, b)"),
    Mutant("a condition of one table is lost with the order", ORDER, "return relation if predicate is None else Filter(relation, predicate)", "return relation"),
    Mutant("a variance keeps what the middle is off the mean", STATISTICS, "({exact} - {rests} / {self.n})", "{exact}"),
    Mutant("a sample is divided by all of its rows", STATISTICS, "THEN {m.write_moment(0, 0)} / ({m.n} - 1)\"\n\n\ndef _write_deviation(", "THEN {m.write_moment(0, 0)} / {m.n}\"\n\n\ndef _write_deviation("),
    Mutant("a covariance counts rows with one null", STATISTICS, 'is_not_null(a) for a in args)]\n    fits', 'is_not_null(a) for a in args[:1])]\n    fits'),
    Mutant("a unit is a whole number", STATISTICS, "integer(10**scale)", "integer(1)"),
    Mutant("numbers that no sum holds are forgotten", GROUPS, "coalesce(own.`{n}`, 0) + part.`{n}` > 0", "part.`{n}` > 0"),
    Mutant("numbers that no sum holds are forgotten at the driver", ARROW + "extrema.py", "pc.add(pc.fill_null(stored[n], 0), part.column(n)), 0)", "part.column(n), 0)"),
    Mutant("a function that was computed from all rows stays", GROUPS, 'return f"CASE WHEN sign < 0 THEN {was} END"', 'return was'),
    Mutant("bits that go are turned round", GROUPS, 'if call.combine != "sum":', 'if not call.combine:'),
    Mutant("bits that go are turned round at the driver", ARROW + "groups.py", 'return values if call.combine == "bit_xor" else apply_weight(values, weight)', 'return apply_weight(values, weight)'),
    Mutant("PIVOT counts what is not there as 0", PIVOT, "_write_if_any(test, _add_filter(call, test))", "_add_filter(call, test)"),
)  # fmt: skip


def broken(mutant: Mutant, folder: Path) -> Path:
    """A copy of the source with one rule broken."""
    copy = folder / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    target = copy / "spark_trickle" / mutant.file
    text = target.read_text()
    if text.count(mutant.old) != 1:
        raise AssertionError(f"{mutant.name}: its text is {text.count(mutant.old)} times in {mutant.file}")
    target.write_text(text.replace(mutant.old, mutant.new))
    return copy


def is_caught(mutant: Mutant, folder: Path) -> bool:
    """Whether the laws fail on the broken copy."""
    env = {**os.environ, "PYTHONPATH": f"{broken(mutant, folder)}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    suites = [f"tests/laws/test_{name}.py" for name in ("buffer", "ties", "deltas")]
    suites.append("tests/cases/test_cases.py")
    recursion = mutant.file in (RECURSIVE, "refresh/fixpoint.py") or "turned round" in mutant.name
    suites.insert(0 if recursion else len(suites), "tests/laws/test_recursion.py")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *suites]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.returncode == 1
