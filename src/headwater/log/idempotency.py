"""Appends under keys: one that is tried again under the same key is found, on disk or on its way there.

A key is two references of a partition, which are written with what was appended:

    00 "key:" offset of the first record    o, digest of the key
    00 "key:" fingerprint of the content    c, digest of the key
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headwater.log.settings import StoreSettings
from headwater.log.tracking import KEY_PREFIX, Tracking

__all__ = ["FINGERPRINT_BITS", "Appended", "appended_under", "sequences_of", "tracking_of"]

FINGERPRINT_BITS = 63
_OFFSET = KEY_PREFIX + b"o"
_CONTENT = KEY_PREFIX + b"c"


class Appended(msgspec.Struct, frozen=True, gc=False):
    """What was appended to a partition under a key."""

    first_offset: int
    fingerprint: int


def tracking_of(settings: StoreSettings) -> Tracking:
    """What a new partition remembers."""
    return Tracking(
        settings.tracking_entries_max,
        settings.tracking_expiry_ms,
        2 * settings.idempotency_keys_max,
        settings.idempotency_expiry_ms,
    )


def appended_under(tracking: Tracking, key: bytes) -> Appended | None:
    """What a partition has taken under a key, None if nothing that it remembers."""
    first_offset = tracking.gathered_sequence(_OFFSET + key)
    fingerprint = tracking.gathered_sequence(_CONTENT + key)
    if first_offset is None or fingerprint is None:
        return None
    return Appended(first_offset, fingerprint)


def sequences_of(key: bytes, appended: Appended) -> Mapping[bytes, int]:
    """The references and sequences that say so."""
    return {_OFFSET + key: appended.first_offset, _CONTENT + key: appended.fingerprint}
