"""Where a reader of partitions stands, as text: `0:17,1:4` is the offset that comes next in each, by their ids.

What has a meaning in it is percent-encoded in ids.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote, unquote

__all__ = ["POSITION_CHARS_MAX", "InvalidPosition", "PositionText", "read_position"]

OFFSET_MAX = (1 << 63) - 1
_DIGITS = re.compile(r"[0-9]{1,19}")
POSITION_CHARS_MAX = 8000
"""As much as fits into a header."""


class InvalidPosition(ValueError):
    """A text that is no position in these partitions, and why."""


class PositionText:
    """Writes positions in the same partitions; what does not change is written once."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._labels = [quote(id_, safe="") + ":" for id_ in ids]
        self._parts = ["" for _ in ids]
        self._offsets = [-1 for _ in ids]

    def at(self, offsets: Sequence[int]) -> str:
        """The text of a position."""
        parts, known = self._parts, self._offsets
        for number, offset in enumerate(offsets):
            if offset != known[number]:
                known[number] = offset
                parts[number] = f"{self._labels[number]}{offset}"
        return ",".join(parts)


def read_position(text: str, ids: Sequence[str]) -> dict[str, int]:
    """The offset of each partition that a position names; raises `InvalidPosition`."""
    if len(text) > POSITION_CHARS_MAX:
        raise InvalidPosition(f"it has more than {POSITION_CHARS_MAX} characters")
    offsets: dict[str, int] = {}
    for part in text.split(","):
        label, colon, digits = part.strip().rpartition(":")
        id_ = unquote(label)
        if not colon or _DIGITS.fullmatch(digits) is None or int(digits) > OFFSET_MAX:
            raise InvalidPosition(f"{part!r:.100} is not the id of a partition, a colon, and an offset")
        if id_ not in ids:
            raise InvalidPosition(f"there is no partition {id_!r:.100}")
        if id_ in offsets:
            raise InvalidPosition(f"the partition {id_!r:.100} is there twice")
        offsets[id_] = int(digits)
    return offsets
