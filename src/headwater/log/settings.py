"""Settings of a data folder and of a log; every bound of the storage engine has its name here."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from headwater.errors import InvalidSettings

__all__ = [
    "CHUNK_DATA_BYTES_MAX",
    "DUPLICATES_WINDOW_COUNT_LIMIT",
    "FRAME_BYTES_MAX",
    "Content",
    "Durability",
    "GroupBinding",
    "GroupCreation",
    "GroupWaiting",
    "LogPolicies",
    "LogSettings",
    "PartitionBinding",
    "StoreSettings",
]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

FRAME_BYTES_MAX = MIB
"""The largest frame of the stream protocol that carries a chunk."""

CHUNK_DATA_BYTES_MAX = FRAME_BYTES_MAX - 48 - 17
"""What is left of a frame for data: less the chunk header and the longest Deliver header."""

DUPLICATES_WINDOW_COUNT_LIMIT = 1_000_000
"""Each event of a window takes about 150 bytes of memory, and 2 µs when the server starts."""

Content = Literal["any", "cloudevents"]
Durability = Literal["disk", "memory"]
GroupBinding = Literal["assign", "dynamic"]
GroupCreation = Literal["attach", "configured"]
GroupWaiting = Literal["refuse", "wait"]
PartitionBinding = Literal["agnostic", "assign"]

_DAY_MS = 24 * 3600 * 1000
_GROUP_COUNT_LIMIT = 100_000
_DELIVERY_COUNT_LIMIT = 254
"""A consumer's count of failures goes no further than one more."""
_NAME_BYTES_LIMIT = 255
_SEGMENT_BYTES_LIMIT = 2 * 1024 * MIB
_TRACKING_ENTRIES_LIMIT = 500_000
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")


class LogPolicies(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a log wants of its clients; those of the stream protocol have no words for it."""

    content: Content = "any"
    """`cloudevents`: what is no valid CloudEvent is refused, with the reason."""
    duplicates_window_count: int = 0
    """Of a log of CloudEvents: an event whose source and id one of the last so many of its partition has is dropped."""
    duplicates_window_ms: int = 24 * 3600 * 1000
    """An event that came longer ago than this is no original any more."""
    group_binding: GroupBinding = "assign"
    """`assign`: a link that names a group alone is bound to a free partition. `dynamic`: it stays agnostic, and
    partitions move between such links."""
    group_creation: GroupCreation = "attach"
    """`attach`: a link makes the group that it names. `configured`: only those that an operator made are there."""
    group_waiting: GroupWaiting = "refuse"
    """What becomes of a link when its group has no partition free."""
    group_wait_ms_max: int = 60_000
    """How long one waits for a partition, where links wait."""
    group_reserved_ms: int = 5_000
    """How long a partition that a group took from a link is kept for the container that it is meant for."""
    group_move_ms_max: int = 5_000
    """How long a partition that moves waits for what its owner holds unsettled."""
    group_members_max: int = 1_000
    """Links of one group."""
    groups_max: int = 1_000
    """Groups of the log."""
    partition_binding: PartitionBinding = "agnostic"
    """`assign`: a link without a group that asks for no partition is bound to one."""
    delivery_count_max: int | None = None
    """A message of which more deliveries failed goes to `dead_letter_log`; without one, nothing comes of it."""
    dead_letter_log: str | None = None
    """Gets what failed too often and what was rejected; the name of another log of the vhost."""
    partition_attribute: str = "partitionkey"
    """Attribute of CloudEvents that come over HTTP whose value decides on their partition, as a key does."""
    retention_hold_bytes_max: int = GIB
    """Of what retention would remove from a partition, durable subscriptions that are behind hold back this much."""

    def __post_init__(self) -> None:
        _between("duplicates_window_count", self.duplicates_window_count, 0, DUPLICATES_WINDOW_COUNT_LIMIT)
        _between("duplicates_window_ms", self.duplicates_window_ms, 1, 30 * _DAY_MS)
        if self.duplicates_window_count and self.content != "cloudevents":
            raise InvalidSettings(
                "duplicates_window_count", "only a log whose content is cloudevents has one"
            )
        for name in ("group_wait_ms_max", "group_reserved_ms", "group_move_ms_max"):
            _between(name, getattr(self, name), 0, _DAY_MS)
        _between("group_members_max", self.group_members_max, 1, _GROUP_COUNT_LIMIT)
        _between("groups_max", self.groups_max, 0, _GROUP_COUNT_LIMIT)
        if self.delivery_count_max is not None:
            _between("delivery_count_max", self.delivery_count_max, 0, _DELIVERY_COUNT_LIMIT)
        if self.dead_letter_log is not None and not (
            0 < len(self.dead_letter_log.encode()) <= _NAME_BYTES_LIMIT
        ):
            raise InvalidSettings(
                "dead_letter_log", f"{self.dead_letter_log!r} is not 1 to {_NAME_BYTES_LIMIT} bytes long"
            )
        if _ATTRIBUTE_NAME.fullmatch(self.partition_attribute) is None:
            raise InvalidSettings(
                "partition_attribute",
                f"{self.partition_attribute!r:.100} is not lower-case letters and digits",
            )
        _between("retention_hold_bytes_max", self.retention_hold_bytes_max, 0, 2**62)


class LogSettings(LogPolicies, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one log keeps its events, and its policies."""

    durability: Durability = "disk"
    """`disk`: confirmed after fdatasync. `memory`: after the write."""
    segment_bytes: int = 256 * MIB
    """A segment that has reached this length is followed by a new one."""
    snapshot_interval_bytes: int = 16 * MIB
    """How much of a segment recovery reads at most, next to what was being written."""
    chunk_data_bytes_max: int = CHUNK_DATA_BYTES_MAX
    """A gathering beyond this is split into several chunks."""
    commit_bytes_max: int = 4 * MIB
    """One write and sync takes about this much; what has gathered beyond it is next."""
    entry_bytes_max: int = CHUNK_DATA_BYTES_MAX
    """A larger entry is refused."""
    filter_bytes: int = 16
    """Size of the bloom filter of a chunk that has filter values."""
    max_age_ms: int | None = None
    """Segments whose youngest event is older are removed."""
    max_bytes: int | None = None
    """The oldest segments are removed while the partition is larger."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _between("segment_bytes", self.segment_bytes, KIB, _SEGMENT_BYTES_LIMIT)
        _between("snapshot_interval_bytes", self.snapshot_interval_bytes, KIB, _SEGMENT_BYTES_LIMIT)
        _between("chunk_data_bytes_max", self.chunk_data_bytes_max, 64, CHUNK_DATA_BYTES_MAX)
        _between("commit_bytes_max", self.commit_bytes_max, 1, _SEGMENT_BYTES_LIMIT)
        _between("entry_bytes_max", self.entry_bytes_max, 64, 256 * MIB)
        _between("filter_bytes", self.filter_bytes, 16, 255)
        for name in ("max_age_ms", "max_bytes"):
            value = getattr(self, name)
            if value is not None:
                _between(name, value, 1, 2**62)


class StoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds that all logs of a data folder share."""

    commit_threads: int = 8
    """Commits that are under way at once; each writes and syncs one file."""
    background_threads: int = 2
    """What no commit should wait for: removing files, and reading cold pages."""
    direct_files_max: int = 8
    """With more dirty partitions than this, those with little to write go through the journal."""
    direct_bytes_min: int = 64 * KIB
    """A commit of this much is synced by itself, however many there are: the journal would write its bytes twice."""
    uncommitted_bytes_max: int = 64 * MIB
    """Gathered and not yet on disk, in all; beyond it producers are made to wait."""
    partition_uncommitted_bytes_max: int = 16 * MIB
    """The same for one partition."""
    tail_bytes_max: int = 32 * MIB
    """Chunks kept in memory, newest first, for consumers at the end of their logs."""
    index_bytes_max: int = 64 * MIB
    """Loaded indexes, for look-ups by offset and time."""
    open_files_max: int = 4096
    """Data files held open between uses."""
    journal_bytes_max: int = 64 * MIB
    """A longer journal is closed, its segments are synced, and it is removed."""
    state_compact_bytes: int = 4 * MIB
    """`$state` is written anew when it is longer than this, and four times as long as what it holds."""
    tracking_entries_max: int = 65_535
    """Publisher references, and stored offsets, that a partition remembers; the longest unused go first."""
    tracking_expiry_ms: int = 30 * 24 * 3600 * 1000
    """References unused for longer are forgotten."""
    idempotency_keys_max: int = 16_384
    """Appends under a key of their own that a partition remembers, so that none is made twice; the oldest go first."""
    idempotency_expiry_ms: int = _DAY_MS
    """Such keys are forgotten after this time."""
    staging_bytes_max: int = 4 * 1024 * MIB
    """Uploads of staged commits that may lie on disk."""
    staging_expiry_ms: int = 24 * 3600 * 1000
    """An upload that nobody committed is removed after this time."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _between(name, getattr(self, name), 1, 2**62)
        _between("commit_threads", self.commit_threads, 1, 64)
        _between("background_threads", self.background_threads, 1, 64)
        _between("tracking_entries_max", self.tracking_entries_max, 1, _TRACKING_ENTRIES_LIMIT)
        _between("idempotency_keys_max", self.idempotency_keys_max, 1, _TRACKING_ENTRIES_LIMIT // 2)


def _between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidSettings(name, f"{value} does not lie between {low} and {high}")
