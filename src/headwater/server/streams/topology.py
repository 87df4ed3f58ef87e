"""RabbitMQ Streams protocol, streams and super streams of a vhost: what is there, and making and deleting it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headwater.errors import InvalidSettings, LogExists, StorageError, UnknownLog
from headwater.log.log import Log, PartitionDefinition
from headwater.log.partition import Partition
from headwater.log.settings import LogSettings
from headwater.log.store import Store
from headwater.server.streams.arguments import log_settings
from headwater.streams.commands import ResponseCode

__all__ = ["Topology"]

RESERVED_PREFIX = "amq."


class Topology:
    """Streams by name; the answers are response codes of the protocol."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def stream(self, vhost: str, name: str) -> Partition | None:
        """The partition behind a stream of this name."""
        return self._store.stream(name, vhost)

    def create(self, vhost: str, name: str, arguments: Mapping[str, str]) -> ResponseCode:
        """Make a stream."""
        return self._create(vhost, name, (), arguments)

    def create_super_stream(
        self,
        vhost: str,
        name: str,
        partitions: Sequence[str],
        keys: Sequence[str],
        arguments: Mapping[str, str],
    ) -> ResponseCode:
        """Make a super stream of these partitions, each bound by a key."""
        if len(partitions) != len(keys) or not partitions:
            return ResponseCode.PRECONDITION_FAILED
        definitions = [PartitionDefinition(*pair) for pair in zip(partitions, keys, strict=True)]
        return self._create(vhost, name, definitions, arguments)

    def delete(self, vhost: str, name: str) -> ResponseCode:
        """Delete a stream; a partition of a super stream is not deleted alone."""
        log = self._store.logs.get((vhost, name))
        if log is not None and log.definition.kind == "stream":
            return self._delete(vhost, name)
        if self.stream(vhost, name) is not None:
            return ResponseCode.PRECONDITION_FAILED
        return ResponseCode.STREAM_DOES_NOT_EXIST

    def delete_super_stream(self, vhost: str, name: str) -> ResponseCode:
        """Delete a super stream with all its partitions."""
        if self.super_stream(vhost, name) is None:
            return ResponseCode.STREAM_DOES_NOT_EXIST
        return self._delete(vhost, name)

    def super_stream(self, vhost: str, name: str) -> Log | None:
        """The super stream of this name."""
        log = self._store.logs.get((vhost, name))
        return log if log is not None and log.definition.kind == "super_stream" else None

    def route(self, vhost: str, name: str, key: str) -> tuple[str, ...] | None:
        """The partitions of a super stream that are bound by a key; None if there is no such super stream."""
        log = self.super_stream(vhost, name)
        if log is None:
            return None
        return tuple(partition.name for partition in log.definition.partitions if partition.key == key)

    def partition_index(self, vhost: str, super_stream: str, stream: str) -> int | None:
        """The number of a partition in its super stream; None if it is none of it."""
        log = self.super_stream(vhost, super_stream)
        names = [] if log is None else [partition.name for partition in log.definition.partitions]
        return names.index(stream) if stream in names else None

    def names(self, vhost: str, name: str) -> Iterator[str]:
        """The streams that go when the log of this name does."""
        log = self._store.logs.get((vhost, name))
        if log is not None:
            yield from (partition.name for partition in log.partitions)

    def _create(
        self,
        vhost: str,
        name: str,
        partitions: Sequence[PartitionDefinition],
        arguments: Mapping[str, str],
    ) -> ResponseCode:
        names = [name, *(partition.name for partition in partitions)]
        if any(not each.strip() or each.startswith(RESERVED_PREFIX) for each in names):
            return ResponseCode.PRECONDITION_FAILED
        try:
            settings = log_settings(arguments)
            self._store.create_log(
                name,
                vhost=vhost,
                kind="super_stream" if partitions else "stream",
                partitions=partitions,
                settings=settings,
            )
        except LogExists:
            return self._existing(vhost, name, partitions, settings)
        except InvalidSettings:
            return ResponseCode.PRECONDITION_FAILED
        except StorageError:
            return ResponseCode.INTERNAL_ERROR
        return ResponseCode.OK

    def _existing(
        self, vhost: str, name: str, partitions: Sequence[PartitionDefinition], settings: LogSettings
    ) -> ResponseCode:
        log = self._store.logs.get((vhost, name))
        if log is not None and not partitions and log.definition.kind == "stream":
            same = log.definition.settings == settings
            return ResponseCode.STREAM_ALREADY_EXISTS if same else ResponseCode.PRECONDITION_FAILED
        return ResponseCode.STREAM_ALREADY_EXISTS

    def _delete(self, vhost: str, name: str) -> ResponseCode:
        try:
            self._store.delete_log(name, vhost)
        except UnknownLog:
            return ResponseCode.STREAM_DOES_NOT_EXIST
        except StorageError:
            return ResponseCode.INTERNAL_ERROR
        return ResponseCode.OK
