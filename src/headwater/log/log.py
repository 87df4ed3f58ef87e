"""A log: a name, its partitions and settings, and `log.json`, which says them on disk."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import msgspec

from headwater.errors import ForeignFile, InvalidSettings, NewerFormat
from headwater.log.files import Files
from headwater.log.partition import Partition
from headwater.log.settings import LogPolicies, LogSettings

__all__ = [
    "LOG_FORMAT",
    "PARTITIONS_MAX",
    "Log",
    "LogDefinition",
    "LogKind",
    "PartitionDefinition",
    "read_definition",
    "write_definition",
]

LOG_FORMAT = 1
PARTITIONS_MAX = 1000
NAME_BYTES_MAX = 255
BOUND_NUMBERS_START = 1 << 31
"""The number of a bound stream is that of its log, from here on."""

LogKind = Literal["stream", "super_stream"]


class PartitionDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One partition: the name of its stream, and its routing key where the log has them.

    It lies in the folder of its log, unless `stream_id` says that it is a stream of its own which was bound to this
    super stream: then in that stream's folder, for as long as it is bound.
    """

    name: str
    key: str = ""
    stream_id: int = 0
    order: int | None = None
    """Where a bound stream stands among the others; those without come in the order of binding."""
    number: int | None = None
    """Of its folder in that of its log; without one it is the next behind that of the one before."""


class LogDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `log.json` holds."""

    format: int
    id: int
    vhost: str
    name: str
    kind: LogKind
    partitions: tuple[PartitionDefinition, ...]
    settings: LogSettings
    arguments: dict[str, str] = msgspec.field(default_factory=dict)
    """What a stream client or the management API asked for, in its own words; `settings` is what counts."""
    settings_at_first: LogSettings | None = None
    """Those that it was made with, if they were changed since: who asks for these again finds the same log."""

    def __post_init__(self) -> None:
        for name in (self.name, self.vhost, *(partition.name for partition in self.partitions)):
            if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
                raise InvalidSettings("name", f"{name!r} is not 1 to {NAME_BYTES_MAX} bytes long")
        if len(self.partitions) > PARTITIONS_MAX:
            raise InvalidSettings("partitions", f"{len(self.partitions)} are more than {PARTITIONS_MAX}")
        if self.kind == "stream" and (len(self.partitions) != 1 or self.partitions[0].stream_id):
            raise InvalidSettings("partitions", "a stream has one of its own; make it a super stream")
        if len({partition.name for partition in self.partitions}) != len(self.partitions):
            raise InvalidSettings("partitions", "two have the same name")
        numbers = [-1, *self.own_numbers]
        if any(number <= before for before, number in itertools.pairwise(numbers)):
            raise InvalidSettings("partitions", f"their numbers do not rise: {numbers[1:]}")
        if self.settings.dead_letter_log == self.name:
            raise InvalidSettings("dead_letter_log", f"{self.name!r} is the log itself; name another")

    @property
    def own_partitions(self) -> list[PartitionDefinition]:
        """Those that lie in the log's folder."""
        return [partition for partition in self.partitions if not partition.stream_id]

    @property
    def own_numbers(self) -> list[int]:
        """The folders of `own_partitions`."""
        numbers: list[int] = []
        for partition in self.own_partitions:
            following = numbers[-1] + 1 if numbers else 0
            numbers.append(following if partition.number is None else partition.number)
        return numbers

    @property
    def partition_ids(self) -> tuple[str, ...]:
        """How events tell their partitions, in ASCII: by a routing key of its own, else by name; one alone is 0."""
        if len(self.partitions) == 1:
            return ("0",)
        uses = Counter(partition.key for partition in self.partitions)
        return tuple(
            key if (key := partition.key) and key.isascii() and uses[key] == 1 else quote(partition.name)
            for partition in self.partitions
        )

    def with_settings(self, settings: LogSettings) -> LogDefinition:
        """The same with other settings."""
        at_first = self.settings_at_first or self.settings
        return msgspec.structs.replace(
            self, settings=settings, settings_at_first=None if settings == at_first else at_first
        )

    def is_asked_for_by(self, settings: LogSettings) -> bool:
        """Whether settings are those of the log, now or when it was made; of its policies they need not know."""
        policies = {name: getattr(settings, name) for name in LogPolicies.__struct_fields__}
        return any(
            known is not None and msgspec.structs.replace(known, **policies) == settings
            for known in (self.settings, self.settings_at_first)
        )

    def bound(self, partition: PartitionDefinition) -> LogDefinition:
        """The same with one more stream bound, in its place."""
        others = list(self.partitions)
        if partition.order is None:
            return msgspec.structs.replace(self, partitions=(*others, partition))
        at = next(
            (
                at
                for at, other in enumerate(others)
                if other.order is not None and other.order > partition.order
            ),
            len(others),
        )
        return msgspec.structs.replace(self, partitions=(*others[:at], partition, *others[at:]))

    def unbound(self, stream_id: int) -> LogDefinition:
        """The same without this stream."""
        left = tuple(partition for partition in self.partitions if partition.stream_id != stream_id)
        return msgspec.structs.replace(self, partitions=left)

    def without(self, name: str) -> LogDefinition:
        """The same without this partition of its own; the others stay in their folders."""
        numbers = iter(self.own_numbers)
        numbered = [
            partition if partition.stream_id else msgspec.structs.replace(partition, number=next(numbers))
            for partition in self.partitions
        ]
        left = tuple(partition for partition in numbered if partition.name != name)
        return msgspec.structs.replace(self, partitions=left)


class Log:
    """A log with its partitions, in order."""

    __slots__ = ("definition", "folder", "on_deleted", "on_partitions_changed", "partitions")

    def __init__(self, definition: LogDefinition, folder: Path) -> None:
        self.definition = definition
        self.folder = folder
        self.partitions: list[Partition] = []
        self.on_partitions_changed: set[Callable[[], None]] = set()
        """Called when there are more or fewer of them; whoever uses all of them is here."""
        self.on_deleted: set[Callable[[], None]] = set()
        """Called when it is gone, which bound streams may outlive."""

    @property
    def name(self) -> str:
        """As users say it."""
        return self.definition.name

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the partitions, in their order; a partition keeps its number when others come and go."""
        own = iter(self.definition.own_numbers)
        return tuple(
            BOUND_NUMBERS_START + each.stream_id if each.stream_id else next(own)
            for each in self.definition.partitions
        )

    @property
    def own_partitions(self) -> list[Partition]:
        """The partitions that go when the log does; those of bound streams stay."""
        return [partition for partition in self.partitions if partition.id.log_id == self.definition.id]


def write_definition(files: Files, folder: Path, definition: LogDefinition) -> None:
    """Make `log.json` say this, durably."""
    files.replace_file(folder / "log.json", msgspec.json.format(msgspec.json.encode(definition)))


def read_definition(files: Files, folder: Path) -> LogDefinition:
    """What `log.json` says; raises `NewerFormat`, or `ForeignFile` if it is none of ours."""
    path = folder / "log.json"
    data = files.read_file(path)
    try:
        found = msgspec.json.decode(data, type=dict[str, object]).get("format")
        if isinstance(found, int) and found > LOG_FORMAT:
            raise NewerFormat(path, found, LOG_FORMAT)
        return msgspec.json.decode(data, type=LogDefinition)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidSettings) as error:
        raise ForeignFile(path) from error
