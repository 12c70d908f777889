"""ClickHouse's own block compression (`compress=1`), which JDBC drivers ask for by default.

A block is a checksum (CityHash128 as of version 1.0.2), a method, two sizes and the data in LZ4.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final

import lz4.block

LZ4: Final = 0x82
BLOCK_BYTES: Final = 256 * 1024
_HEADER: Final = struct.Struct("<BII")
_MASK: Final = 2**64 - 1
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F
_K3: Final = 0xC949D7C7509E6557
_MULTIPLIER: Final = 0x9DDFEA08EB382D69
_U64, _U32 = struct.Struct("<Q"), struct.Struct("<I")


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each chunk as blocks."""
    for chunk in chunks:
        for at in range(0, len(chunk), BLOCK_BYTES):
            yield block(chunk[at : at + BLOCK_BYTES])


def block(data: bytes) -> bytes:
    """Return one block."""
    packed: bytes = lz4.block.compress(data, store_size=False)
    whole = _HEADER.pack(LZ4, _HEADER.size + len(packed), len(data)) + packed
    return struct.pack("<QQ", *city_hash_128(whole)) + whole


def city_hash_128(text: bytes) -> tuple[int, int]:
    """Return the lower and the upper half of the hash."""
    size = len(text)
    if size >= 16:
        return _with_seed(text[16:], _u64(text, 0) ^ _K3, _u64(text, 8))
    if size >= 8:
        low = _u64(text, 0) ^ (size * _K0 & _MASK)
        return _with_seed(b"", low, _u64(text, size - 8) ^ _K1)
    return _with_seed(text, _K0, _K1)


def _u64(text: bytes, at: int) -> int:
    return int(_U64.unpack_from(text, at)[0])


def _rotate(value: int, by: int) -> int:
    return ((value >> by) | (value << (64 - by))) & _MASK


def _mixed(value: int) -> int:
    return value ^ (value >> 47)


def _both(low: int, high: int) -> int:
    one = _mixed((low ^ high) * _MULTIPLIER & _MASK)
    other = _mixed((high ^ one) * _MULTIPLIER & _MASK)
    return other * _MULTIPLIER & _MASK


def _up_to_16(text: bytes) -> int:
    size = len(text)
    if size > 8:
        first, last = _u64(text, 0), _u64(text, size - 8)
        return _both(first, _rotate((last + size) & _MASK, size)) ^ last
    if size >= 4:
        (first,), (last,) = _U32.unpack_from(text, 0), _U32.unpack_from(text, size - 4)
        return _both(size + (first << 3), last)
    if size:
        low, high = text[0] + (text[size >> 1] << 8), size + (text[-1] << 2)
        return _mixed((low * _K2 ^ high * _K3) & _MASK) * _K2 & _MASK
    return _K2


def _short(text: bytes, a: int, b: int) -> tuple[int, int]:
    size = len(text)
    if size <= 16:
        a = _mixed(a * _K1 & _MASK) * _K1 & _MASK
        c = (b * _K1 + _up_to_16(text)) & _MASK
        d = _mixed((a + (_u64(text, 0) if size >= 8 else c)) & _MASK)
    else:
        c = _both((_u64(text, size - 8) + _K1) & _MASK, a)
        d = _both((b + size) & _MASK, (c + _u64(text, size - 16)) & _MASK)
        a = (a + d) & _MASK
        for at in range(0, size - 16, 16):
            a = (a ^ (_mixed(_u64(text, at) * _K1 & _MASK) * _K1 & _MASK)) * _K1 & _MASK
            b ^= a
            c = (c ^ (_mixed(_u64(text, at + 8) * _K1 & _MASK) * _K1 & _MASK)) * _K1 & _MASK
            d ^= c
    a, b = _both(a, c), _both(d, b)
    return a ^ b, _both(b, a)


def _weak(words: tuple[int, ...], a: int, b: int) -> tuple[int, int]:
    w, x, y, z = words
    a = (a + w) & _MASK
    b = _rotate((b + a + z) & _MASK, 21)
    c = a
    a = (a + x + y) & _MASK
    return (a + z) & _MASK, (b + _rotate(a, 44) + c) & _MASK


def _with_seed(text: bytes, x: int, y: int) -> tuple[int, int]:
    size = len(text)
    if size < 128:
        return _short(text, x, y)
    z = size * _K1 & _MASK
    v0 = (_rotate(y ^ _K1, 49) * _K1 + _u64(text, 0)) & _MASK
    v1 = (_rotate(v0, 42) * _K1 + _u64(text, 8)) & _MASK
    w0 = (_rotate((y + z) & _MASK, 35) * _K1 + x) & _MASK
    w1 = _rotate((x + _u64(text, 88)) & _MASK, 53) * _K1 & _MASK
    rounds = size // 128
    for t in struct.iter_unpack("<8Q", memoryview(text)[: rounds * 128]):
        x = _rotate((x + y + v0 + t[2]) & _MASK, 37) * _K1 & _MASK
        y = _rotate((y + v1 + t[6]) & _MASK, 42) * _K1 & _MASK
        x ^= w1
        y ^= v0
        z = _rotate(z ^ w0, 33)
        v0, v1 = _weak(t[:4], v1 * _K1 & _MASK, (x + w0) & _MASK)
        w0, w1 = _weak(t[4:], (z + w1) & _MASK, y)
        x, z = z, x
    y = (y + _rotate(w0, 37) * _K0 + z) & _MASK
    x = (x + _rotate((v0 + z) & _MASK, 49) * _K0) & _MASK
    left = size - rounds * 128
    for done in range(32, left + 32, 32):
        y = (_rotate((y - x) & _MASK, 42) * _K0 + v1) & _MASK
        # It reads back beyond the rest, into what was hashed.
        w0 = (w0 + _u64(text, size - done + 16)) & _MASK
        x = (_rotate(x, 49) * _K0 + w0) & _MASK
        w0 = (w0 + v0) & _MASK
        v0, v1 = _weak(struct.unpack_from("<4Q", text, size - done), v0, v1)
    x, y = _both(x, v0), _both(y, w0)
    return (_both((x + v1) & _MASK, w1) + y) & _MASK, _both((x + w1) & _MASK, (y + v1) & _MASK)
