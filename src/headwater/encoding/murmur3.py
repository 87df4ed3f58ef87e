"""Keys to partitions, as the stream clients do it: murmur3 (x86, 32 bit, seed 104729) modulo the count."""

from __future__ import annotations

from headwater.encoding._hash_kernel import murmur3_32

__all__ = ["PARTITION_SEED", "partition_of"]

PARTITION_SEED = 104_729


def partition_of(key: bytes, count: int) -> int:
    """The partition, from 0 to `count` - 1, that a key belongs to whichever door it comes through."""
    return murmur3_32(key, PARTITION_SEED) % count
