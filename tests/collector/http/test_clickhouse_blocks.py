"""ClickHouse's block compression: hashes of the reference package, and blocks read back."""

import struct

import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.http.clickhouse_blocks import BLOCK_BYTES, blocks, city_hash_128

HASHES = {
    0: 82332263323914296566372529678324145705,
    1: 119649571101951460681854278447771281690,
    3: 65178789257313659002942689948013191469,
    7: 102897488735005536065120257587540696016,
    8: 212568504405573625985821918933675268282,
    15: 26936140832257985644134753332101663833,
    16: 104334835823053023268254760559737862087,
    17: 320229331459427716520009012797202772398,
    31: 204625925818558719728135856928752437544,
    47: 321743584896122227427999065327693585780,
    127: 48541750897139689395892070565487509806,
    128: 108664217549376981772919247884361931679,
    143: 46557801270125843119929203128357972117,
    144: 206868692672492648449915389750708314376,
    145: 118644667565231916799866515350722979621,
    200: 232655539795675360862074532740252648532,
    272: 96628776758865585718556597554116727234,
    300: 80560470473328577023909544936259017851,
    1000: 204519656072437341311632479719519194304,
    5000: 175804857520650582527147820995575426920,
}
"""By size, of clickhouse-cityhash 1.0.2."""


@pytest.mark.parametrize("size", HASHES)
def test_hashes_are_those_of_the_reference(size):
    low, high = city_hash_128(bytes((i * 7 + size) % 256 for i in range(size)))

    assert low << 64 | high == HASHES[size]


def read_back(packed):
    found, at = b"", 0
    while at < len(packed):
        low, high, method, size, plain = struct.unpack_from("<QQBII", packed, at)
        whole = packed[at + 16 : at + 16 + size]
        assert (method, city_hash_128(whole)) == (0x82, (low, high))
        found += lz4.block.decompress(whole[9:], uncompressed_size=plain)
        at += 16 + size
    return found


@given(st.lists(st.binary(max_size=400), max_size=5))
def test_blocks_are_read_back(chunks):
    assert read_back(b"".join(blocks(chunks))) == b"".join(chunks)


def test_a_long_chunk_is_several_blocks():
    chunk = b"0123456789" * BLOCK_BYTES

    packed = list(blocks([chunk]))

    assert len(packed) == 10
    assert read_back(b"".join(packed)) == chunk
