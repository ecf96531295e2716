"""Every error says what, why and what to do, in one style, and survives the way between processes."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle import errors
from spark_trickle.errors import Kind, TrickleError

EXAMPLES: list[TrickleError] = [
    errors.InternalError("no such state"),
    errors.SqlSyntaxError("expected a name", 2, 5),
    errors.SqlSyntaxError("the statement is empty", advice="Write a statement."),
    errors.UnsupportedError("a CHECK constraint", "Leave it out."),
    errors.QueryError("division by zero", "DIVIDE_BY_ZERO"),
    errors.QueryError("division by zero", ""),
    errors.TableNotFoundError("oders", ("orders", "s.Items")),
    errors.TableNotFoundError("x"),
    errors.SchemaNotFoundError("x", ("main", "sales")),
    errors.ColumnNotFoundError("Nmae", ("name", "price")),
    errors.AlreadyExistsError("table", "t"),
    errors.ReadOnlyTableError("main.s"),
    errors.SourceNotFoundError("shpo", ("shop",)),
    errors.SourceUnreadableError("lake", "orders", "ValueError: no number"),
    errors.SourceUnreadableError("lake", "", "KeyError: 'add'"),
    errors.RecursionTooDeepError("main.s", 100),
    errors.CircularError(("main.a", "main.b", "main.a")),
    errors.CircleRefusedError("main.a", "LIMIT is over a member of it", "Leave it out."),
    errors.NoFixpointError(("main.a", "main.b"), 100),
    errors.FuseBlownError("main.s", 5_000_000, 1_000_000),
    errors.SourceLostError("main.t", "was dropped"),
    errors.SeveralFailedError("refreshes", ("no a", "no b"), ("Try this.", "Try that.")),
    errors.InUseError("main.t", "dropped", ("main.s", "main.r")),
    errors.InvalidDefinitionError("a column is named twice", "Name each column once."),
    errors.TypeNotAllowedError("a", "MAP", "Use an array."),
    errors.TypeMismatchError("a", "INT", "STRING"),
    errors.NotNullViolationError("t", "a", ("(1, NULL)",)),
    errors.DuplicateKeyError("t", ("a", "b"), ("(1, 2)", "(3, 4)")),
    errors.MergeCardinalityError("t", ("(1)",)),
    errors.ValueTooLongError("a", "VARCHAR(2)", "abc"),
    errors.SnapshotNotFoundError("7", 3, 5),
    errors.SettingError("x", "there is no such setting", ("compression",)),
    errors.TransactionStateError("no transaction is open", "Start one with BEGIN."),
    errors.ConflictError("main.t", 3, 5, "deleted"),
    errors.ConflictError("shop", 3, 5, "read", 'the source "shop"'),
    errors.CatalogBusyError("sqlite:///x", 60.0),
    errors.WarehouseError("the folder is read-only", "Choose another one."),
    errors.WarehouseMismatchError("/data", "it belongs to warehouse a", "Give another data_path."),
    errors.BackupError("the folder holds no backup", "Give another one."),
    errors.VersionError("0009", "0001"),
    errors.DamagedFileError("t", "x.parquet", "is missing"),
    errors.SparkLostError("connection refused"),
    errors.ResultTooLargeError("results of 3 tasks (1100.0 MiB) are bigger than 1024.0 MiB"),
    errors.FolderNotSharedError("/data", "the executors wrote 4 rows, and 2 of them are there"),
    errors.SourceAddressError("the dsn contains a password", "Put it into a passfile."),
    errors.SourceUnavailableError("connection refused"),
    errors.SourceBusyError("the source is busy: a lock"),
    errors.SourceSetupError("wal_level is not logical", "Change it."),
    errors.SourceValueError("price", "DECIMAL(38,18)", "NaN"),
    errors.ReplicaIdentityError("public.t", 'ALTER TABLE "public"."t" REPLICA IDENTITY FULL'),
    errors.SourceSchemaChangedError("public.t", ('column "a" was dropped', 'column "b" was dropped')),
    errors.ResyncNeededError("public.t", "its triggers were disabled"),
    errors.WalDecodeError("a string does not end", 7),
    errors.TargetExistsError("public.t", "spark-trickle did not create it"),
    errors.OutsideFileError("main.t", "/lake/t/1.parquet", "is gone"),
    errors.OutsideFileError("", "/lake/t/1.bin", "is damaged: its checksum is another one"),
    errors.ChangesUnknownError("main.t", 7, "the file /lake/t/1.parquet is gone"),
    errors.NotPublishedError("main.s", "public.s"),
    errors.NotPublishedError("main.s", "public.s", '"main.s" of another warehouse'),
    errors.WarehouseCopiedError(
        'source "shop" serves', "/a on one", "/b on two", "SYNC SOURCE shop TAKE OVER"
    ),
    errors.RepairNeededError("public.s", "it is at snapshot 3, but the change starts at snapshot 4"),
    errors.TargetChangedError("public.s", ('column "a" was dropped or renamed',)),
    errors.TargetRefusedError("public.s", 'violates check constraint "positive"'),
    errors.TargetValueError("a", "text", r"'\x00'"),
]

# SQL words, names in quotes and names of products may stand at the beginning of a message.
_STARTS_LOWER = re.compile(r'[a-z0-9"(]|[A-Z_]{2,}\b|Spark\b')
_SENTENCE = re.compile(r'(?s)["A-Z].*[.?…]')


def _classes(of: type[TrickleError] = TrickleError) -> Iterator[type[TrickleError]]:
    """Those that are raised; the others are bases of them."""
    for each in of.__subclasses__():
        yield from list(_classes(each)) or [each]


def test_every_class_has_an_example() -> None:
    assert {type(e) for e in EXAMPLES} == {c for c in _classes() if c.__module__.startswith(errors.__name__)}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_style(error: TrickleError) -> None:
    assert _STARTS_LOWER.match(error.message)
    assert not error.message.endswith(".")
    assert _SENTENCE.fullmatch(error.hint)
    assert str(error) == f"[{error.code}] {error.message}\nHint: {error.hint}"
    assert error.args == (error.message,)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_pickling_keeps_everything(error: TrickleError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert (again.message, again.hint, again.code, str(again)) == (
        error.message,
        error.hint,
        error.code,
        str(error),
    )


def test_codes_are_unique() -> None:
    codes = [c.code for c in _classes()]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch("[A-Z]+(_[A-Z]+)*", code) for code in codes)


def test_only_what_others_did_meanwhile_is_worth_a_retry() -> None:
    retryable = {type(e) for e in EXAMPLES if e.retryable}
    assert retryable == {
        errors.ConflictError,
        errors.CatalogBusyError,
        errors.SourceUnavailableError,
        errors.SourceBusyError,
    }
    assert {e.kind for e in EXAMPLES} == set(Kind)


HINTS = [
    (errors.TableNotFoundError("oders", ("orders", "s.Items")), 'Did you mean "orders"?'),
    (errors.TableNotFoundError("ORDERS", ("Orders",)), 'Did you mean "Orders"?'),
    (errors.TableNotFoundError("zzz", ("b", "a")), "The tables are a, b."),
    (errors.TableNotFoundError("zzz"), "There are no tables yet."),
    (errors.TableNotFoundError("t", ("t", "u")), "The tables are t, u."),
    (errors.TableNotFoundError("t", ("main.t",)), 'Did you mean "main.t"?'),
    (errors.TableNotFoundError("main.v", found="view"), "Name one of the tables that the view reads; "),
    (errors.TableNotFoundError("main.t", wanted="view", found="stream table"), "Use DROP STREAM TABLE to "),
    (errors.ColumnNotFoundError("Nmae", ("name", "price")), 'Did you mean "name"?'),
    (errors.SchemaNotFoundError("zzz", ("main",)), "The schemas are main."),
]


@pytest.mark.parametrize(("error", "hint"), HINTS)
def test_a_wrong_name_gets_a_better_one(error: TrickleError, hint: str) -> None:
    assert error.hint.startswith(hint)


def test_a_long_list_of_names_is_cut() -> None:
    error = errors.TableNotFoundError("zzz", tuple(f"t{n:03}" for n in range(500)))
    assert len(error.hint) < 200


# --- the texts at the places where errors are raised -----------------------------------------------

_MESSAGES = {
    "SqlSyntaxError": 0,
    "InvalidDefinitionError": 0,
    "WarehouseError": 0,
    "WarehouseMismatchError": 1,
    "BackupError": 0,
    "TransactionStateError": 0,
    "fail": 0,
}
_ADVICE = {"SqlSyntaxError": 3, "UnsupportedError": 1, "InvalidDefinitionError": 1, "WarehouseError": 1,
           "WarehouseMismatchError": 2, "BackupError": 1, "TransactionStateError": 1, "fail": 1}  # fmt: skip


def _raised() -> Iterator[tuple[str, str, ast.Call]]:
    root = Path(spark_trickle.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in _ADVICE:
                    yield f"{path.relative_to(root)}:{node.lineno}", name, node


def _text(node: ast.expr | None) -> str | None:
    """A written text; what is filled in at run time stands as x."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "x" for v in node.values)
    return None


def _argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    found: Any = next((k.value for k in call.keywords if k.arg == keyword), None)
    return found or (call.args[position] if position < len(call.args) else None)


def test_texts_of_errors_follow_the_style() -> None:
    wrong, seen = [], 0
    for place, name, call in _raised():
        message = _text(_argument(call, _MESSAGES[name], "detail")) if name in _MESSAGES else None
        advice = _text(_argument(call, _ADVICE[name], "advice"))
        if message is not None and (not _STARTS_LOWER.match(message) or message.endswith(".")):
            wrong.append(f"{place}: {message}")
        if advice is not None and not _SENTENCE.fullmatch(advice):
            wrong.append(f"{place}: {advice}")
        seen += message is not None
    assert wrong == []
    assert seen > 30
