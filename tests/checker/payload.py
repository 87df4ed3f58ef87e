"""What a message of the checker says of itself: everything in it follows from the seed and from who sent it.

 0  4  magic "HWck"
 4  4  CRC-32 of all that follows
 8  2  publisher            22  2  index in the sub-batch, 0 where there is none
10  4  attempt              24  2  records of the sub-batch, 1 where there is none
14  8  publishing id        26     filler, its length and bytes chosen by publisher, id and index

An attempt is one connection of the publisher: what is sent again on the next one differs in this number alone.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from isal.isal_zlib import crc32

from headwater.encoding.amqp_message import Data, Message, decode_message
from headwater.encoding.compression import Compression, pack_sub_batch
from headwater.errors import MalformedValue
from headwater.streams.publish import encode_filtered_publish, encode_publish, publish_header

__all__ = ["BadPayload", "Identity", "Payloads", "body_of", "digest_of", "filter_of"]

MAGIC = b"HWck"
FILLER_BYTES_MAX = 96
_POOL_BYTES = 1 << 16

_PREFIX = struct.Struct(">4sI")
_IDENTITY = struct.Struct(">HIQHH")
_ID = struct.Struct(">Q")
_HEAD_BYTES = _PREFIX.size + _IDENTITY.size


class BadPayload(Exception):
    """A record that no publisher of the run made."""


class Identity(NamedTuple):
    """Which message this is."""

    publisher: int
    attempt: int
    id: int
    place: int
    """In its sub-batch."""
    records: int


class Payloads:
    """Makes the messages of a run, and recognises them."""

    def __init__(self, seed: int) -> None:
        self._pool = random.Random(f"filler {seed}").randbytes(_POOL_BYTES)

    def body(self, publisher: int, attempt: int, id_: int, index: int = 0, count: int = 1) -> bytes:
        """The one content of this message."""
        mixed = (id_ * 2_654_435_761 + index * 40_503 + publisher * 7_919) & 0xFFFFFFFF
        size = mixed % (FILLER_BYTES_MAX + 1)
        start = (mixed >> 8) % (_POOL_BYTES - FILLER_BYTES_MAX)
        rest = _IDENTITY.pack(publisher, attempt, id_, index, count) + self._pool[start : start + size]
        return _PREFIX.pack(MAGIC, crc32(rest)) + rest

    def read(self, record: bytes) -> Identity:
        """Which message this is, be it an AMQP message or bare; raises `BadPayload` unless it is as it was sent."""
        body = record
        if not record.startswith(MAGIC):
            try:
                body = body_of(decode_message(record, 0, len(record)))
            except MalformedValue as error:
                raise BadPayload(str(error)) from error
        if len(body) < _HEAD_BYTES or body[:4] != MAGIC:
            raise BadPayload(f"{len(body)} bytes that begin with {body[:8].hex()} are none of ours")
        identity = Identity(*_IDENTITY.unpack_from(body, _PREFIX.size))
        if body != self.body(*identity):
            raise BadPayload(f"{identity} has other bytes than were sent")
        return identity

    def bodies(self, publisher: int, attempt: int, ids: range) -> list[bytes]:
        """The contents of messages of one record each."""
        return [self.body(publisher, attempt, id_) for id_ in ids]

    def frame(
        self,
        wire_id: int,
        publisher: int,
        attempt: int,
        ids: range,
        *,
        filters: Sequence[str] = (),
        sub_batch: tuple[int, int] | None = None,
    ) -> bytes:
        """A Publish of these ids; each is one message, or a sub-batch of so many records with a compression."""
        if sub_batch is not None:
            return self._sub_batches(wire_id, publisher, attempt, ids, *sub_batch)
        bodies = self.bodies(publisher, attempt, ids)
        if not filters:
            return encode_publish(wire_id, zip(ids, bodies, strict=True))
        values = [filter_of(filters, id_) for id_ in ids]
        return encode_filtered_publish(wire_id, zip(ids, values, bodies, strict=True))

    def _sub_batches(
        self, wire_id: int, publisher: int, attempt: int, ids: range, records: int, compression: int
    ) -> bytes:
        parts = [b""]
        for id_ in ids:
            bodies = [self.body(publisher, attempt, id_, index, records) for index in range(records)]
            parts += (_ID.pack(id_), pack_sub_batch(bodies, Compression(compression)))
        parts[0] = publish_header(wire_id, len(ids), sum(map(len, parts)))
        return b"".join(parts)


def body_of(message: Message) -> bytes:
    """The one data section of a message; raises `BadPayload` for any other body."""
    body = message.body
    if not (isinstance(body, Data) and len(body.sections) == 1):
        raise BadPayload(f"a message with the body {body!r:.80}")
    return bytes(body.sections[0])


def digest_of(identities: Iterable[Identity]) -> int:
    """One number for messages in their order."""
    return crc32(b"".join(_IDENTITY.pack(*identity) for identity in identities))


def filter_of(filters: Sequence[str], id_: int) -> str | None:
    """The filter value under which a message goes; runs of ids share one, so that chunks differ."""
    return (filters[(id_ // 64) % len(filters)] or None) if filters else None
