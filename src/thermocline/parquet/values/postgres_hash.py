"""Postgres' 64-bit hash functions, vectorised.

`hash_bytes_extended` and `hash_bytes_uint32_extended` of src/common/hashfn.c (Bob Jenkins' lookup3), for arrays of
values at once. All arithmetic is modulo 2^32 on uint32 arrays, in place where it can be: the arrays stay in the
processor's cache when slices are small.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_START = 0x9E3779B9 + 3923095
_BLOCK = 12
_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], dtype=np.uint32)


def hash_uint32(values: U32, seed: int) -> U64:
    """hash_uint32_extended(value, seed) of each value."""
    a, b, c = _seeded(4, seed)
    return _finished(values + a, np.full(len(values), b), np.full(len(values), c))


def hash_int64(values: I64, seed: int) -> U64:
    """hashint8extended(value, seed): the high half is folded into the low one, so that equal int4 and int8 have one
    hash."""
    folded = values >> 32
    folded ^= values >> 63
    folded ^= values
    return hash_uint32(folded.astype(np.uint32), seed)


def hash_fixed(data: U8, width: int, seed: int) -> U64:
    """hash_any_extended of consecutive values of one width (a multiple of four)."""
    words = data.view("<u4").reshape(-1, width // 4)
    state = [np.full(len(words), part) for part in _seeded(width, seed)]
    done = 0
    while words.shape[1] - done >= 3:
        for part in range(3):
            state[part] += words[:, done + part]
        state = list(_mixed(*state))
        done += 3
    for part in range(words.shape[1] - done):
        state[part] += words[:, done + part]
    return _finished(*state)


def hash_variable(data: U8, offsets: npt.NDArray[Any], seed: int) -> U64:
    """hash_any_extended of byte strings: value i is data[offsets[i]:offsets[i + 1]]. `data` is padded by the longest
    value and one block."""
    starts = offsets[:-1].astype(np.int64)
    lengths = offsets[1:].astype(np.int64) - starts
    a = (lengths + _START).astype(np.uint32)
    b, c = a.copy(), a.copy()
    if seed:
        a, b, c = _mixed(a + np.uint32(seed >> 32), b + np.uint32(seed & 0xFFFFFFFF), c)
    blocks = lengths // _BLOCK
    most = int(blocks.max(initial=0))
    words = _gathered(data, starts, (most + 1) * _BLOCK)
    for number in range(most):
        a, b, c = _mixed_where(blocks > number, (a, b, c), words[:, 3 * number : 3 * number + 3])
    tails = np.arange(0, words.size, words.shape[1]) + blocks * 3
    left = lengths - blocks * _BLOCK
    flat = words.reshape(-1)
    a += flat.take(tails) & _MASKS.take(np.minimum(left, 4))
    b += flat.take(tails + 1) & _MASKS.take(np.clip(left - 4, 0, 4))
    # The lowest byte of c is reserved for the length, so the last word moves up by one byte.
    c += (flat.take(tails + 2) & _MASKS.take(np.clip(left - 8, 0, 4))) << np.uint32(8)
    return _finished(a, b, c)


def _gathered(data: U8, starts: I64, width: int) -> U32:
    """The bytes from each start on, as rows of words: one copy per value, where reading word by word would take one per
    word."""
    windows = np.ndarray(shape=(max(len(data) - width + 1, 0),), dtype=f"V{width}", buffer=data, strides=(1,))
    return windows[starts].view("<u4").reshape(len(starts), width // 4)


def _mixed_where(active: npt.NDArray[np.bool_], state: tuple[U32, U32, U32], block: U32) -> tuple[U32, U32, U32]:
    """Mix one block into the values that are this long; when most are, all are mixed and the others keep their
    state."""
    count = int(np.count_nonzero(active))
    if 2 * count > len(active):
        mixed = _mixed(*(part + block[:, at] for at, part in enumerate(state)))
        if count < len(active):
            for new, old in zip(mixed, state, strict=True):
                np.copyto(new, old, where=~active)
        return mixed
    rows = np.flatnonzero(active)
    for part, new in zip(state, _mixed(*(part[rows] + block[rows, at] for at, part in enumerate(state))), strict=True):
        part[rows] = new
    return state


@lru_cache(maxsize=4096)
def _seeded(length: int, seed: int) -> tuple[np.uint32, np.uint32, np.uint32]:
    """The state before the first byte of a value of this length; a seed is mixed in only if there is one."""
    start = (_START + length) & 0xFFFFFFFF
    a, b, c = (np.full(1, (start + part) & 0xFFFFFFFF, dtype=np.uint32) for part in (seed >> 32, seed & 0xFFFFFFFF, 0))
    if seed:
        a, b, c = _mixed(a, b, c)
    return a[0], b[0], c[0]


def _rotated(values: U32, bits: int) -> U32:
    turned = values << np.uint32(bits)
    turned |= values >> np.uint32(32 - bits)
    return turned


def _mixed(a: U32, b: U32, c: U32) -> tuple[U32, U32, U32]:
    for bits in (4, 6, 8, 16, 19, 4):
        a -= c
        a ^= _rotated(c, bits)
        c += b
        a, b, c = b, c, a
    return a, b, c


def _finished(a: U32, b: U32, c: U32) -> U64:
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c ^= b
        c -= _rotated(b, bits)
        a, b, c = b, c, a
    # After seven rotations the names are shifted by one: b and c of the C code are a and b here.
    return (a.astype(np.uint64) << np.uint64(32)) | b.astype(np.uint64)
