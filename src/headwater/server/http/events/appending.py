"""Which partitions incoming messages go to, and their way there: all of a share at once, once under a key."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from headwater.encoding._hash_kernel import hash_spans
from headwater.encoding._key_kernel import sort_spans
from headwater.encoding._span_kernel import SPAN_FIELDS
from headwater.errors import CallerError, EntryTooLarge, StorageError
from headwater.log.idempotency import Appended, appended_under, sequences_of
from headwater.log.partition import Partition
from headwater.server.http.events.incoming import Incoming

__all__ = ["IdempotencyKey", "KeyReused", "Share", "Stored", "append", "durable", "shares_of"]


class KeyReused(CallerError):
    """The key of an append was used before, for other content."""


class IdempotencyKey(msgspec.Struct, frozen=True):
    """What makes an append that is tried again the same one."""

    digest: bytes
    fingerprint: int


class Share(NamedTuple):
    """What of the messages goes to one partition."""

    partition: int
    spans: array[int]
    numbers: Sequence[int]
    """Which message of all each one is."""


class Stored(NamedTuple):
    """Where messages went."""

    partitions: array[int]
    offsets: array[int]
    was_there: bool
    """Whether all of it was stored by an earlier request under the same key."""
    touched: Sequence[int]


def shares_of(incoming: Incoming, partition_count: int, otherwise: int, *, keyed: bool) -> list[Share]:
    """Messages by partition: those with a key by its hash, as all clients have it, the others where it is said."""
    count = incoming.count
    if not count:
        return []
    if partition_count == 1 or not (keyed and incoming.has_keys):
        return [Share(otherwise, incoming.spans, range(count))]
    partitions = array("q", [otherwise]) * count
    hash_spans(incoming.buffer, incoming.keys, count, partition_count, partitions)
    counts = array("q", bytes(8 * partition_count))
    spans, numbers = array("q", bytes(8 * SPAN_FIELDS * count)), array("q", bytes(8 * count))
    sort_spans(incoming.spans, 0, count, partitions, counts, spans, numbers)
    shares, first = [], 0
    for partition in sorted(set(partitions)):
        end = first + counts[partition]
        shares.append(Share(partition, spans[SPAN_FIELDS * first : SPAN_FIELDS * end], numbers[first:end]))
        first = end
    return shares


def append(
    incoming: Incoming, shares: Sequence[Share], partitions: Sequence[Partition], key: IdempotencyKey | None
) -> Stored:
    """Append all shares, or with an error none of them; under a key, those that were not appended before.

    Raises `KeyReused`, `EntryTooLarge`, `InvalidCloudEvent`, and what a partition raises that takes nothing.
    """
    found = {} if key is None else _found(partitions, key)
    waiting = [share for share in shares if share.partition not in found]
    for share in waiting:
        _check(incoming, share, partitions[share.partition], is_whole=key is not None)
    if len(shares) == 1 and waiting:
        return _stored_whole(incoming, shares[0], partitions, key)
    to, offsets = array("q", bytes(8 * incoming.count)), array("q", bytes(8 * incoming.count))
    for share in shares:
        earlier = found.get(share.partition)
        first = (
            _append(incoming, share, partitions[share.partition], key)
            if earlier is None
            else earlier.first_offset
        )
        there = _offsets_of(incoming, share, partitions[share.partition], first)
        for offset, number in zip(there, share.numbers, strict=True):
            to[number], offsets[number] = share.partition, offset
    touched = [share.partition for share in shares]
    return Stored(to, offsets, was_there=bool(shares) and not waiting, touched=touched)


def _stored_whole(
    incoming: Incoming, share: Share, partitions: Sequence[Partition], key: IdempotencyKey | None
) -> Stored:
    """Append what goes to one partition, as most does."""
    partition = partitions[share.partition]
    first = _append(incoming, share, partition, key)
    offsets = array("q", _offsets_of(incoming, share, partition, first))
    to = array("q", [share.partition]) * incoming.count
    return Stored(to, offsets, was_there=False, touched=[share.partition])


async def durable(partitions: Sequence[Partition]) -> None:
    """Wait until all that these have taken is on disk; raises what kept it from there."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = len(partitions)
    failed: StorageError | None = None

    def settled(error: StorageError | None) -> None:
        nonlocal left, failed
        left -= 1
        failed = failed or error
        if left or done.done():
            return
        if failed is None:
            done.set_result(None)
        else:
            done.set_exception(failed)

    for partition in partitions:
        partition.when_settled(settled)
    if partitions:
        await done


def _found(partitions: Sequence[Partition], key: IdempotencyKey) -> Mapping[int, Appended]:
    found = {}
    for number, partition in enumerate(partitions):
        appended = appended_under(partition.tracking, key.digest)
        if appended is None:
            continue
        if appended.fingerprint != key.fingerprint:
            raise KeyReused("the key was used before, for a request with other content; take a new one")
        found[number] = appended
    return found


def _check(incoming: Incoming, share: Share, partition: Partition, *, is_whole: bool) -> None:
    """Refuse what the partition would not take, before anything is appended anywhere."""
    partition.check_writable(len(share.numbers))
    settings, spans = partition.settings, share.spans
    if partition.intake.admission is not None:
        partition.intake.admission.check(incoming.buffer, spans)
    size = 4 * len(share.numbers) + spans[-1] - spans[0]
    if size <= settings.entry_bytes_max and size <= settings.chunk_data_bytes_max:
        return
    sizes = [end - start for start, end in zip(spans[::SPAN_FIELDS], spans[3::SPAN_FIELDS], strict=True)]
    if max(sizes) + 4 > settings.entry_bytes_max:
        raise EntryTooLarge(max(sizes) + 4, settings.entry_bytes_max)
    size = sum(sizes) + 4 * len(sizes)
    if is_whole and size > settings.chunk_data_bytes_max:
        raise EntryTooLarge(size, settings.chunk_data_bytes_max)


def _append(incoming: Incoming, share: Share, partition: Partition, key: IdempotencyKey | None) -> int:
    count, first_offset = len(share.numbers), partition.next_offset
    sequences: Mapping[bytes, int] = {}
    if key is not None:
        sequences = sequences_of(key.digest, Appended(first_offset, key.fingerprint))
    taken = 0
    while taken < count:
        taken += partition.append_some_spans(
            incoming.buffer, share.spans, taken, count - taken, goes_on=True, sequences=sequences
        )
    return first_offset


def _offsets_of(incoming: Incoming, share: Share, partition: Partition, first_offset: int) -> Sequence[int]:
    admission = partition.intake.admission
    if admission is None:
        return range(first_offset, first_offset + len(share.numbers))
    return admission.offsets_of(incoming.buffer, share.spans, first_offset)
