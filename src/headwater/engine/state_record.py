"""Records of `$state`: their keys, and how the engine asks for them to be written.

A record is a MessagePack array. Its first element is the version of its layout; the rest stands at the head of the
module that owns it. A key begins with a word, so that one kind can be listed, and goes on with digests, because names
of peers have any length:

    cursor/<owner 16><partition 4>       cursor_record          <owner> is the digest of a subscription or a group
    subscription/<owner 16>              subscription_record
    group/<owner 16>                     group_record

The effects of one call are carried out in their order. `$state` keeps that order over a crash, so cursors are put
before the record of their owner and deleted after it: an owner on disk has its cursors, and a cursor without an owner
is what a crash left behind; `unowned` finds these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from headwater.errors import MalformedState

__all__ = [
    "CURSOR",
    "GROUP",
    "SUBSCRIPTION",
    "Delete",
    "Put",
    "cursor_key",
    "cursor_key_parts",
    "decode",
    "encode",
    "owner_digest",
    "owner_key",
    "unowned",
]

CURSOR, SUBSCRIPTION, GROUP = b"cursor/", b"subscription/", b"group/"

_DIGEST_BYTES = 16

T = TypeVar("T")


class Put(msgspec.Struct, frozen=True, gc=False):
    """Set a key of `$state`."""

    key: bytes
    value: bytes


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Remove a key of `$state`."""

    key: bytes


def owner_digest(kind: bytes, *names: str | None) -> bytes:
    """What stands for a subscription or a group in keys."""
    identity = kind + msgspec.msgpack.encode(names)
    return hashlib.blake2b(identity, digest_size=_DIGEST_BYTES).digest()


def owner_key(kind: bytes, digest: bytes) -> bytes:
    """The key of a subscription's or a group's own record."""
    return kind + digest


def cursor_key(digest: bytes, partition: int) -> bytes:
    """The key of the cursor that an owner has on one partition."""
    return CURSOR + digest + partition.to_bytes(4, "big")


def cursor_key_parts(key: bytes) -> tuple[bytes, int]:
    """The digest of its owner, and the partition, that the key of a cursor has."""
    end = len(CURSOR) + _DIGEST_BYTES
    return key[len(CURSOR) : end], int.from_bytes(key[end:], "big")


def unowned(cursor_keys: Iterable[bytes], digests: Iterable[bytes]) -> list[Delete]:
    """What removes cursors that a crash left without an owner."""
    known = set(digests)
    return [Delete(key) for key in cursor_keys if cursor_key_parts(key)[0] not in known]


def encode(record: msgspec.Struct) -> bytes:
    """The value of a record."""
    return msgspec.msgpack.encode(record)


def decode(data: bytes, kind: type[T]) -> T:
    """The record of a value; raises `MalformedState` on anything else."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedState(str(error)) from None
