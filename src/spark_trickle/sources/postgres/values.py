"""The texts that PostgreSQL writes for values -> Arrow columns of our types, exactly or not at all.

The first copy, the change buffers and the log all bring values as text, written under the same settings
(see connect), so one row has one image whichever way it comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal, Inexact, localcontext

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from spark_trickle.errors import SourceValueError
from spark_trickle.model.arrow import arrow_type
from spark_trickle.model.table import WEIGHT
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, sql_name
from spark_trickle.sources.postgres.arrays import parse_array
from spark_trickle.sources.postgres.types import MappedColumn

_SAFE_DIGITS = 38


def parse_weights(values: Sequence[int]) -> pa.Array:
    return pa.array(values, pa.int32())


def to_table(columns: Sequence[MappedColumn], texts: Sequence[pa.Array], weight: pa.Array) -> pa.Table:
    """Columns of texts as rows of the mirror with their weights."""
    arrays = [from_text(c.name, c.type, t) for c, t in zip(columns, texts, strict=True)]
    return pa.table([*arrays, weight], names=[*(c.name for c in columns), WEIGHT])


def from_csv(lines: Iterable[bytes], width: int) -> list[pa.Array]:
    """Lines of COPY … (FORMAT csv) as `width` columns of texts; NULL and the empty text stay apart."""
    data = b"".join(lines)
    if not data:
        return [pa.array([], pa.string()) for _ in range(width)]
    names = [str(n) for n in range(width)]
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(column_names=names, block_size=len(data) + 1, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [column.combine_chunks() for column in table.columns]


def from_text(column: str, kind: ColumnType, texts: pa.Array) -> pa.Array:
    """Texts as values of one of our types; a value that does not fit is named."""
    try:
        return _convert_texts(column, kind, texts)
    except pa.ArrowInvalid:
        raise SourceValueError(column, sql_name(kind), _find_culprit(kind, texts)) from None


def _convert_texts(column: str, kind: ColumnType, texts: pa.Array) -> pa.Array:
    match kind:
        case Array(element):
            return _convert_lists(column, kind, element, texts)
        case Struct():
            raise AssertionError("no column of PostgreSQL becomes a struct")
        case Scalar("boolean"):
            return pc.equal(texts, "t")
        case Scalar("binary"):
            return pa.array(
                [None if t is None else bytes.fromhex(t[2:]) for t in texts.to_pylist()], pa.binary()
            )
        case Scalar(name) if name.startswith("decimal"):
            return _convert_decimals(texts, arrow_type(kind))
        case Scalar():
            return pc.cast(texts, arrow_type(kind))


def _convert_decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Arrow reads texts into 128 or 256 bits without noticing an overflow; up to 38 digits 256 are enough."""
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= _SAFE_DIGITS:
        return pc.cast(pc.cast(texts, pa.decimal256(76, kind.scale)), kind)
    return pa.array([None if t is None else _convert_decimal(t, kind) for t in texts.to_pylist()], kind)


def _convert_decimal(text: str, kind: pa.DataType) -> Decimal:
    """A long text: most of its digits may be zeros after the point."""
    value = Decimal(text)
    with localcontext(Context(prec=_SAFE_DIGITS, traps=[])) as context:
        short = value.quantize(Decimal(1).scaleb(-kind.scale))
        if not short.is_finite() or context.flags[Inexact]:
            raise pa.ArrowInvalid(text)
    return short


def _convert_lists(column: str, kind: Array, element: ColumnType, texts: pa.Array) -> pa.Array:
    """One flat column of all elements, cut into lists: the elements are converted in one go."""
    flat: list[str | None] = []
    offsets: list[int | None] = []
    for text in texts.to_pylist():
        if text is None:
            offsets.append(None)
            continue
        offsets.append(len(flat))
        items = parse_array(text)
        if items is None:
            raise SourceValueError(column, sql_name(kind), text)
        flat += items
    offsets.append(len(flat))
    values = from_text(column, element, pa.array(flat, pa.string()))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=arrow_type(kind))


def _find_culprit(kind: ColumnType, texts: pa.Array) -> str:
    """The first text that cannot be converted."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        if _is_convertible(kind, texts.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return str(texts[low].as_py())


def _is_convertible(kind: ColumnType, texts: pa.Array) -> bool:
    try:
        _convert_texts("", kind, texts)
    except pa.ArrowInvalid:
        return False
    return True
