"""Events for the demo: Publish bodies whose ids rise, made faster than they are stored."""

from __future__ import annotations

import struct

__all__ = ["BATCH_MESSAGES", "PublishLoad"]

BATCH_MESSAGES = 1024
_HEAD = struct.Struct(">QI")


class PublishLoad:
    """One Publish body that is made over for each batch: only the bytes of the ids change."""

    def __init__(self, payload: bytes) -> None:
        self._stride = _HEAD.size + len(payload)
        message = _HEAD.pack(0, len(payload)) + payload
        self.body = bytearray(message * BATCH_MESSAGES)
        self.body[7 :: self._stride] = bytes(range(256)) * (BATCH_MESSAGES // 256)
        self._high = -1

    def stamp(self, batch: int) -> bytearray:
        """The body with ids from `batch * BATCH_MESSAGES` on."""
        first = batch * BATCH_MESSAGES
        runs = ((first >> 8) + run & 0xFF for run in range(BATCH_MESSAGES // 256))
        self.body[6 :: self._stride] = b"".join(bytes((value,)) * 256 for value in runs)
        if first >> 16 != self._high:
            self._high = first >> 16
            for place, value in enumerate(self._high.to_bytes(6, "big")):
                self.body[place :: self._stride] = bytes((value,)) * BATCH_MESSAGES
        return self.body
