"""`$state`: durable state that changes often, as records of an internal partition; the later record of a key wins.

record, the data of one entry
 0  2  length of the key, then the key
    1  0: the key is removed, 1: a value follows, to the end of the entry
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

from headwater.encoding._kernel import entry_spans
from headwater.errors import EntryTooLarge, LogCorrupt, MalformedChunk, StorageError
from headwater.log.intake import OnDone
from headwater.log.partition import Partition
from headwater.log.reader import Reader

__all__ = ["KEY_BYTES_MAX", "StateStore", "decode_record", "encode_record"]

KEY_BYTES_MAX = 1024

_NO_KEY = b"\0"
_COMPACT_RATIO = 4
_COMPACT_STEP_BYTES = 256 << 10
_LENGTH = struct.Struct(">I")
_KEY_LENGTH = struct.Struct(">H")


class StateStore:
    """A map from keys to values, in memory and on disk; a change is durable when its `on_done` is called."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._values: dict[bytes, bytes] = {}
        self._durable: dict[bytes, bytes] = {}
        self._durable_bytes = 0
        self._compacting = False

    def load(self) -> None:
        """Read all records from disk, up to damage if there is any: then nothing can be changed."""
        with contextlib.suppress(LogCorrupt):
            self._read_records()
        self._values = dict(self._durable)

    def _read_records(self) -> None:
        with Reader(self.partition, self.partition.first_offset, verify=True) as reader:
            while (run := reader.read()) is not None:
                for chunk in run.chunks:
                    spans = entry_spans(run.buffer, chunk.data_start, chunk.data_end, chunk.entries)
                    for position, length, _, _ in spans:
                        self._is_durable(*decode_record(bytes(run.buffer[position : position + length])))

    def get(self, key: bytes) -> bytes | None:
        """The value of a key as it was put last, durable or not yet."""
        return self._values.get(key)

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin so, with their values, in order."""
        for key in sorted(key for key in self._values if key.startswith(prefix)):
            yield key, self._values[key]

    def put(self, key: bytes, value: bytes, on_done: OnDone) -> None:
        """Set a key. If it cannot be made durable, the value on disk is back when `on_done` gets the error."""
        self._change(key, value, on_done)

    def delete(self, key: bytes, on_done: OnDone) -> None:
        """Remove a key."""
        self._change(key, None, on_done)

    def _change(self, key: bytes, value: bytes | None, on_done: OnDone) -> None:
        if not 0 < len(key) <= KEY_BYTES_MAX:
            raise EntryTooLarge(len(key), KEY_BYTES_MAX)

        def done(error: StorageError | None) -> None:
            if error is None:
                self._is_durable(key, value)
                self._compact_if_due()
            else:
                # What came behind it is refused too, so what is on disk is what holds.
                _set(self._values, key, self._durable.get(key))
            on_done(error)

        self.partition.append(_entry(key, value), 1, 1, done)
        _set(self._values, key, value)

    def _is_durable(self, key: bytes, value: bytes | None) -> None:
        before = self._durable.get(key)
        self._durable_bytes -= 0 if before is None else len(key) + len(before)
        self._durable_bytes += 0 if value is None else len(key) + len(value)
        _set(self._durable, key, value)

    def _compact_if_due(self) -> None:
        """Write all that lives anew behind a roll, then let the segments before it go."""
        due = max(self.partition.owner.settings.state_compact_bytes, _COMPACT_RATIO * self._durable_bytes)
        if self._compacting or self.partition.size_bytes < due:
            return
        self._compacting = True
        self.partition.roll()
        self._compact(list(self._values), self.partition.next_offset)

    def _compact(self, keys: list[bytes], start_offset: int) -> None:
        """Write the rest of the keys, as many as there is room for at a time."""

        def done(error: StorageError | None) -> None:
            if error is not None or self.partition.read_only:
                self._compacting = False
            elif keys:
                self._compact(keys, start_offset)
            else:
                self._compacting = False
                self.partition.truncate(start_offset, _ignore)

        entries = bytearray()
        count = 0
        while keys and len(entries) < _COMPACT_STEP_BYTES:
            key = keys.pop()
            if key in self._values:
                entries += _entry(key, self._values[key])
                count += 1
        if not count:  # nothing lives: a record that changes nothing still tells when the roll is durable
            entries, count = bytearray(_entry(_NO_KEY, None)), 1
        try:
            self.partition.append(entries, count, count, done)
        except StorageError:
            self._compacting = False  # no room now; the next change tries again


def encode_record(key: bytes, value: bytes | None) -> bytes:
    """The record that sets a key, or removes it."""
    return _KEY_LENGTH.pack(len(key)) + key + (b"\0" if value is None else b"\1" + value)


def decode_record(data: bytes) -> tuple[bytes, bytes | None]:
    """Key and value, None for a removal; raises `MalformedChunk` on anything else."""
    if len(data) >= _KEY_LENGTH.size:
        end = _KEY_LENGTH.size + _KEY_LENGTH.unpack_from(data)[0]
        if end < len(data) and data[end] == 1:
            return data[_KEY_LENGTH.size : end], data[end + 1 :]
        if end + 1 == len(data) and data[end] == 0:
            return data[_KEY_LENGTH.size : end], None
    raise MalformedChunk(0, "no record of state")


def _entry(key: bytes, value: bytes | None) -> bytes:
    record = encode_record(key, value)
    return _LENGTH.pack(len(record)) + record


def _set(values: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _ignore(error: StorageError | None) -> None:
    """Segments that stay are removed with the next compaction."""
