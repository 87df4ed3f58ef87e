"""/logs: made, listed, looked at, changed, truncated and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headwater.errors import StorageError, UnknownPartition
from headwater.log.log import NAME_BYTES_MAX, PARTITIONS_MAX, Log, LogKind
from headwater.log.partition import Partition, PartitionState
from headwater.log.settings import LogSettings
from headwater.log.store import Store
from headwater.server.http.endpoint import (
    CONFIGURE,
    SEE,
    USER,
    Answer,
    Call,
    Endpoint,
    InVhost,
    Vhost,
    location,
)
from headwater.server.http.paging import Page
from headwater.server.http.problems import FORBIDDEN, INVALID, LOG_EXISTS, READ_ONLY, UNKNOWN_PARTITION
from headwater.server.management.log_settings import (
    SettingsGiven,
    SettingsShown,
    changed_settings,
    dead_letters_refused,
    shown_settings,
)
from headwater.server.management.logs import make_log, numbered_partitions
from headwater.server.management.turns import in_turns
from headwater.server.security.users import DEFAULT_VHOST

__all__ = ["LogEndpoints", "LogShown"]

Name = Annotated[str, Meta(min_length=1, max_length=NAME_BYTES_MAX)]


class NewLog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A log that is to be made."""

    name: Name
    kind: Annotated[
        LogKind | None,
        Meta(description="Without one, a log of one partition is a stream, any other a super stream."),
    ] = None
    partitions: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)] = 1
    settings: SettingsGiven = SettingsGiven()


class LogChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be otherwise; what is left out stays."""

    settings: SettingsGiven


class Truncation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to go."""

    before_offset: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="Events before it go; without one all go.")
    ] = None
    partition: Annotated[
        str | None, Meta(description="Id or name of one partition; without one all are truncated.")
    ] = None


class PartitionShown(msgspec.Struct, frozen=True):
    """One partition of a log."""

    id: str
    name: str
    state: Annotated[str, Meta(description="running, read-only or damaged")]
    reason: str | None
    first_offset: int
    next_offset: int
    event_count: int
    size_bytes: int
    segment_count: int
    last_published: str | None


class LogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A log, less its partitions."""

    name: str
    vhost: str
    id: int
    kind: LogKind
    partition_count: int
    event_count: int
    size_bytes: int
    settings: SettingsShown


class LogShown(LogSummary, frozen=True, kw_only=True):
    """A log with its partitions."""

    partitions: list[PartitionShown]


class LogList(msgspec.Struct, frozen=True):
    """Logs by their names."""

    logs: list[LogSummary]
    next: Annotated[
        str | None, Meta(description="What to give as `after` for the next page; null on the last one.")
    ]


class LogPage(Page, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which logs are listed."""

    vhost: Vhost = DEFAULT_VHOST


class LogEndpoints:
    """What /logs does with the logs of a data folder."""

    def __init__(self, store: Store, delete: Callable[[str, str], None]) -> None:
        self._store = store
        self._delete = delete

    def endpoints(self) -> Sequence[Endpoint[Any, Any]]:
        """All of them."""
        shown = Answer(200, LogShown)
        path = "/logs/{log}"
        return [
            Endpoint("GET", "/logs", self.list_logs, USER, [Answer(200, LogList)], LogPage),
            Endpoint(
                "POST",
                "/logs",
                self.create_log,
                USER,
                [Answer(201, LogShown, "It is there, durably.", {"Location": "Path of the log."})],
                InVhost,
                NewLog,
                problems=(LOG_EXISTS, INVALID),
            ),
            Endpoint("GET", path, self.get_log, SEE, [shown], InVhost),
            Endpoint(
                "PATCH", path, self.change_log, CONFIGURE, [shown], InVhost, LogChange, problems=(INVALID,)
            ),
            Endpoint("DELETE", path, self.delete_log, CONFIGURE, [Answer(204)], InVhost),
            Endpoint(
                "POST",
                path + "/truncate",
                self.truncate_log,
                CONFIGURE,
                [shown],
                InVhost,
                Truncation,
                problems=(INVALID, UNKNOWN_PARTITION, READ_ONLY),
            ),
        ]

    async def list_logs(self, call: Call[LogPage, None]) -> LogList:
        """List the logs that the user sees, by name."""
        vhost, page = call.query.vhost, call.query
        seen = sorted(name for its, name in self._store.logs if its == vhost and call.sees_log(vhost, name))
        names, following = page.cut(seen)
        logs = [self._store.logs.get((vhost, name)) async for name in in_turns(names)]
        return LogList([LogSummary(**_summary(log)) for log in logs if log is not None], following)

    async def create_log(self, call: Call[InVhost, NewLog]) -> LogShown:
        """Make a log; the user needs the permission configure on it and on each partition."""
        wanted, vhost = call.body, call.query.vhost
        is_stream = wanted.kind == "stream" or (wanted.kind is None and wanted.partitions == 1)
        if is_stream and wanted.partitions != 1:
            raise INVALID.refused("a stream has one partition; leave kind out, or make it a super_stream")
        partitions = [] if is_stream else numbered_partitions(wanted.name, wanted.partitions)
        call.require_configure(vhost, wanted.name, *(each.name for each in partitions))
        settings = changed_settings(LogSettings(), wanted.settings)
        _check_dead_letters(call, wanted.name, settings)
        kind: LogKind = "stream" if is_stream else "super_stream"
        log = make_log(self._store, vhost, wanted.name, kind, partitions, settings)
        call.location = location("logs", wanted.name)
        call.changed = f"made the log {wanted.name!r} of {wanted.partitions} partitions"
        return _shown(log)

    async def get_log(self, call: Call[InVhost, None]) -> LogShown:
        """Show a log with its partitions."""
        return _shown(self._log(call))

    async def change_log(self, call: Call[InVhost, LogChange]) -> LogShown:
        """Change the settings of a log; those that are not named stay as they are."""
        log = self._log(call)
        before = log.definition.settings
        settings = changed_settings(before, call.body.settings)
        if settings.dead_letter_log != before.dead_letter_log:
            _check_dead_letters(call, log.name, settings)
        self._store.change_settings(log.name, settings, vhost=call.query.vhost)
        call.changed = msgspec.json.encode(call.body.settings).decode()
        return _shown(log)

    async def delete_log(self, call: Call[InVhost, None]) -> None:
        """Delete a log with its events, and tell the clients that use it."""
        self._delete(call.query.vhost, self._log(call).name)

    async def truncate_log(self, call: Call[InVhost, Truncation]) -> LogShown:
        """Remove old events, whole segments at a time: all of a log, or those of a partition before an offset."""
        log, wanted = self._log(call), call.body
        partitions = _chosen(log, wanted.partition)
        if wanted.before_offset is not None and len(partitions) > 1:
            raise INVALID.refused("before_offset is an offset of one partition; name which, or leave it out")
        call.changed = f"partition {wanted.partition or 'all'} before {wanted.before_offset or 'the end'}"
        await asyncio.gather(*(_truncate(partition, wanted.before_offset) for partition in partitions))
        return _shown(log)

    def _log(self, call: Call[InVhost, Any]) -> Log:
        return self._store.log(call.part("log"), call.query.vhost)


def _check_dead_letters(call: Call[InVhost, Any], name: str, settings: LogSettings) -> None:
    refusal = dead_letters_refused(call, call.query.vhost, name, settings)
    if refusal is not None:
        raise FORBIDDEN.refused(f"{refusal}; ask an administrator for it")


def _chosen(log: Log, wanted: str | None) -> list[Partition]:
    named = dict(zip(log.definition.partition_ids, log.partitions, strict=True))
    if wanted is None:
        return log.own_partitions
    found = named.get(wanted) or next((each for each in log.partitions if each.name == wanted), None)
    if found is None:
        raise UnknownPartition(log.name, wanted)
    return [found]


async def _truncate(partition: Partition, before_offset: int | None) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settled(error: StorageError | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    partition.truncate(partition.committed_offset if before_offset is None else before_offset, settled)
    await done


def _shown(log: Log) -> LogShown:
    return LogShown(**_summary(log), partitions=list(_partitions(log)))


def _summary(log: Log) -> dict[str, Any]:
    definition = log.definition
    return {
        "name": log.name,
        "vhost": definition.vhost,
        "id": definition.id,
        "kind": definition.kind,
        "partition_count": len(log.partitions),
        "event_count": sum(each.committed_offset - each.first_offset for each in log.partitions),
        "size_bytes": sum(each.size_bytes for each in log.partitions),
        "settings": shown_settings(definition.settings),
    }


def _partitions(log: Log) -> Iterator[PartitionShown]:
    for id_, partition in zip(log.definition.partition_ids, log.partitions, strict=True):
        is_running = partition.state is PartitionState.OPEN
        at_ms = partition.timestamp_ms_max
        yield PartitionShown(
            id=id_,
            name=partition.name,
            state="running" if is_running else partition.state.value,
            reason=None if partition.error is None else type(partition.error).__name__,
            first_offset=partition.first_offset,
            next_offset=partition.committed_offset,
            event_count=partition.committed_offset - partition.first_offset,
            size_bytes=partition.size_bytes,
            segment_count=len(partition.segments),
            last_published=datetime.fromtimestamp(at_ms / 1000, UTC).isoformat() if at_ms else None,
        )
