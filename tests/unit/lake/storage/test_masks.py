"""Deletion vectors: what an encoder after the specification of roaring bitmaps writes down is read again."""

from __future__ import annotations

import base64
import struct
import zlib
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_trickle.errors import OutsideFileError
from spark_trickle.lake.storage.masks import (
    DELTA_FILE,
    DELTA_INLINE,
    decode_z85,
    list_numbers,
    mask_rows,
    pack_bits,
    read_row_numbers,
)
from spark_trickle.model.files import Mask

Numbers = list[int]


def encode_block(low: Numbers, way: str) -> bytes:
    if way == "runs":
        gaps = [n for n, (one, other) in enumerate(pairwise(low), start=1) if other != one + 1]
        bounds = list(pairwise([0, *gaps, len(low)]))
        pairs = [struct.pack("<HH", low[first], end - first - 1) for first, end in bounds]
        return struct.pack("<H", len(pairs)) + b"".join(pairs)
    if len(low) <= 4_096:
        return struct.pack(f"<{len(low)}H", *low)
    bits = np.zeros(65_536, bool)
    bits[low] = True
    return np.packbits(bits, bitorder="little").tobytes()


def encode_bitmap(numbers: Numbers, runs: bool) -> bytes:
    blocks = {key: [n & 0xFFFF for n in group] for key, group in groupby(numbers, key=lambda n: n >> 16)}
    heads = b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in blocks.items())
    bodies = [encode_block(low, "runs" if runs else "") for low in blocks.values()]
    if runs:
        flags = np.packbits(np.ones(len(blocks), bool), bitorder="little").tobytes()
        start = struct.pack("<I", 12_347 | (len(blocks) - 1) << 16) + flags + heads
    else:
        start = struct.pack("<II", 12_346, len(blocks)) + heads
    offsets = b""
    if not runs or len(blocks) >= 4:
        at = len(start) + 4 * len(blocks)
        for body in bodies:
            offsets += struct.pack("<I", at)
            at += len(body)
    return start + offsets + b"".join(bodies)


def encode(numbers: Numbers, runs: bool = False) -> bytes:
    """As Delta stores them: a bitmap for each value of the high bits."""
    parts = [
        (high, [n & 0xFFFFFFFF for n in group]) for high, group in groupby(numbers, key=lambda n: n >> 32)
    ]
    bitmaps = b"".join(struct.pack("<I", high) + encode_bitmap(low, runs) for high, low in parts)
    return struct.pack("<IQ", 1_681_511_377, len(parts)) + bitmaps


def in_file(payload: bytes, before: bytes = b"x") -> tuple[bytes, int]:
    framed = struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    return before + framed, len(before)


def read(numbers: Numbers, runs: bool = False) -> Numbers:
    payload = encode(numbers, runs)
    file, at = in_file(payload)
    mask = Mask(DELTA_FILE, "dv.bin", at, len(payload), len(numbers))
    found: Numbers = read_row_numbers(
        mask, lambda _, offset, count: file[offset : offset + count]
    ).to_pylist()
    return found


@given(st.sets(st.integers(0, 2**34), max_size=50), st.booleans())
def test_any_numbers(numbers: set[int], runs: bool) -> None:
    assert read(sorted(numbers), runs) == sorted(numbers)


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize(
    "numbers",
    [
        list(range(70_000)),  # bits, then a list
        list(range(0, 300_000, 3)),
        [*range(10), *range(65_530, 65_545), 2**33],
        [n << 16 for n in range(6)],  # so many blocks that runs have offsets too
        [],
    ],
    ids=lambda numbers: str(len(numbers)),
)
def test_all_forms_of_blocks(numbers: Numbers, runs: bool) -> None:
    assert read(numbers, runs) == numbers


def test_numbers_that_the_log_holds_itself() -> None:
    payload = encode([3, 4, 7, 11, 18, 29])
    padded = payload + b"\0" * (-len(payload) % 4)
    text = (
        base64.b85encode(padded)
        .decode()
        .translate(
            str.maketrans(
                "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
                "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
            )
        )
    )
    mask = Mask(DELTA_INLINE, text, 0, len(payload), 6)
    assert read_row_numbers(mask, lambda *_: b"").to_pylist() == [3, 4, 7, 11, 18, 29]


def test_the_example_of_zeromq() -> None:
    assert decode_z85("HelloWorld") == bytes.fromhex("864FD26FB559F75B")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda file: file[:-1] + bytes([file[-1] ^ 1]), "checksum"),
        (lambda file: b"\0" * len(file), "checksum"),
    ],
)
def test_damage_is_noticed(spoil: object, words: str) -> None:
    payload = encode([1, 2, 3])
    file, at = in_file(payload)
    broken = spoil(file)  # type: ignore[operator]
    mask = Mask(DELTA_FILE, "dv.bin", at, len(payload), 3)
    with pytest.raises(OutsideFileError, match=words):
        read_row_numbers(mask, lambda _, offset, count: broken[offset : offset + count])


def test_another_number_of_rows_is_noticed() -> None:
    payload = encode([1, 2, 3])
    file, at = in_file(payload)
    mask = Mask(DELTA_FILE, "dv.bin", at, len(payload), 4)
    with pytest.raises(OutsideFileError, match="masks 3 rows instead of 4"):
        read_row_numbers(mask, lambda _, offset, count: file[offset : offset + count])


@given(st.sets(st.integers(0, 500), max_size=40))
def test_bits_are_those_of_the_numbers(numbers: set[int]) -> None:
    words = pack_bits(pa.array(sorted(numbers), pa.int64()))
    assert {n for n in range(64 * len(words)) if int(words[n // 64]) >> (n % 64) & 1} == numbers


@given(st.sets(st.integers(0, 20)), st.booleans())
def test_rows_are_masked_or_kept(numbers: set[int], keeps: bool) -> None:
    rows = pa.table({"n": list(range(21))})
    found = mask_rows(rows, pa.array(sorted(numbers), pa.int64()), keeps).column("n").to_pylist()
    assert found == [n for n in range(21) if (n in numbers) == keeps]


@given(st.sets(st.integers(0, 2**40)))
def test_numbers_of_our_own(numbers: set[int]) -> None:
    mask = list_numbers(pa.array(sorted(numbers), pa.int64()))
    assert mask.keeps
    assert read_row_numbers(mask, lambda *_: b"").to_pylist() == sorted(numbers)
