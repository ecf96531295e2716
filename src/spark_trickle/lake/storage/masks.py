"""Deletion vectors -> row numbers.

Delta and Iceberg write down the numbers of deleted rows as roaring bitmaps: for each value of the high 32
bits a bitmap of the low ones, whose blocks of 65,536 numbers are lists, bits or runs, whichever is shortest.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_trickle.errors import OutsideFileError
from spark_trickle.model.files import Mask

# A deletion vector of Iceberg is a file of Delta's form too: the specification wants it so.
DELTA_FILE, DELTA_INLINE, NUMBERS = "delta file", "delta inline", "numbers"
_MAGIC = 1_681_511_377  # of Delta's bitmaps
_NO_RUNS, _RUNS = 12_346, 12_347  # cookies of a bitmap
_MOST_LISTED = 4_096  # numbers of a block; more are bits
_FEW_BLOCKS = 4  # with runs, where the blocks begin is written down from this many on
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_PYTHON = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_PYTHON = str.maketrans(_Z85, _PYTHON)

ReadBytes = Callable[[str, int, int], bytes]  # address, offset, count
Numbers = npt.NDArray[np.int64]


def read_row_numbers(mask: Mask, read: ReadBytes) -> pa.Array:
    """The numbers that a mask holds, ascending."""
    if mask.form == NUMBERS:
        return pa.array(np.frombuffer(zlib.decompress(base64.b85decode(mask.where)), np.int64))
    numbers = np.concatenate([np.zeros(0, np.int64), *_decode_bitmaps(_read_payload(mask, read), mask)])
    if len(numbers) != mask.rows:
        raise OutsideFileError("", mask.where, f"masks {len(numbers)} rows instead of {mask.rows}")
    return pa.array(numbers)


def mask_rows(rows: pa.Table, numbers: pa.Array, keeps: bool = False) -> pa.Table:
    counts = np.full(rows.num_rows, not keeps)
    counts[numbers.to_numpy()] = keeps
    return rows.filter(pa.array(counts))


def list_numbers(numbers: pa.Array) -> Mask:
    """Only these rows count."""
    packed = zlib.compress(numbers.to_numpy().astype(np.int64).tobytes(), 1)
    where = base64.b85encode(packed).decode("ascii")
    return Mask(NUMBERS, where, 0, len(packed), len(numbers), keeps=True)


def pack_bits(numbers: pa.Array) -> Numbers:
    """Words of 64 bits, from row 0 to the last that is named."""
    found = numbers.to_numpy()
    words = np.zeros(int(found[-1]) // 64 + 1 if len(found) else 0, np.uint64)
    bits = np.left_shift(np.uint64(1), (found % 64).astype(np.uint64))
    np.bitwise_or.at(words, found // 64, bits)
    return words.view(np.int64)


def decode_z85(text: str) -> bytes:
    """The Base85 of ZeroMQ, which differs from Python's in its alphabet."""
    return base64.b85decode(text.translate(_TO_PYTHON))


def _read_payload(mask: Mask, read: ReadBytes) -> bytes:
    if mask.form == DELTA_INLINE:
        return decode_z85(mask.where)
    framed = read(mask.where, mask.offset, mask.bytes + 8)
    size = int.from_bytes(framed[:4], "big")
    payload, checksum = framed[4 : 4 + mask.bytes], framed[4 + mask.bytes :]
    if size != mask.bytes or zlib.crc32(payload) != int.from_bytes(checksum, "big"):
        raise OutsideFileError("", mask.where, "is damaged: its checksum is another one")
    return payload


def _decode_bitmaps(payload: bytes, mask: Mask) -> Iterator[Numbers]:
    if int.from_bytes(payload[:4], "little") != _MAGIC:
        raise OutsideFileError("", mask.where, "has deletion vectors in an unknown form")
    count, at = int.from_bytes(payload[4:12], "little"), 12
    for _ in range(count):
        high = int.from_bytes(payload[at : at + 4], "little")
        low, at = _decode_bitmap(payload, at + 4, mask)
        yield low + (high << 32)


def _decode_bitmap(payload: bytes, at: int, mask: Mask) -> tuple[Numbers, int]:
    cookie, at = int.from_bytes(payload[at : at + 4], "little"), at + 4
    if cookie & 0xFFFF == _RUNS:
        blocks = (cookie >> 16) + 1
        packed = np.frombuffer(payload, np.uint8, (blocks + 7) // 8, at)
        flags = np.unpackbits(packed, bitorder="little").astype(bool)
        at += len(packed)
    elif cookie == _NO_RUNS:
        blocks, at = int.from_bytes(payload[at : at + 4], "little"), at + 4
        flags = np.zeros(blocks, bool)
    else:
        raise OutsideFileError("", mask.where, f"has a bitmap with the unknown cookie {cookie}")
    heads = np.frombuffer(payload, "<u2", 2 * blocks, at).reshape(blocks, 2).astype(np.int64)
    at += 4 * blocks
    if cookie == _NO_RUNS or blocks >= _FEW_BLOCKS:
        at += 4 * blocks
    found = []
    for (key, less_one), is_run in zip(heads, flags, strict=False):
        low, at = _decode_block(payload, at, int(less_one) + 1, bool(is_run))
        found.append(low + (int(key) << 16))
    return np.concatenate([np.zeros(0, np.int64), *found]), at


def _decode_block(payload: bytes, at: int, count: int, is_run: bool) -> tuple[Numbers, int]:
    if is_run:
        runs = int.from_bytes(payload[at : at + 2], "little")
        pairs = np.frombuffer(payload, "<u2", 2 * runs, at + 2).reshape(runs, 2).astype(np.int64)
        parts = [np.arange(start, start + length + 1) for start, length in pairs]
        return np.concatenate([np.zeros(0, np.int64), *parts]), at + 2 + 4 * runs
    if count <= _MOST_LISTED:
        return np.frombuffer(payload, "<u2", count, at).astype(np.int64), at + 2 * count
    bits = np.unpackbits(np.frombuffer(payload, np.uint8, 8_192, at), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64), at + 8_192
