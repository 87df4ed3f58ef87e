"""AMQP 1.0 part 3, section 3.5: addresses, and the nodes behind them: logs, and single partitions of them."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Sequence
from urllib.parse import unquote

import msgspec

from headwater.amqp.definitions import Condition, ErrorValue
from headwater.encoding.amqp_types import Symbol
from headwater.errors import CallerError, HeadwaterError, LogExists, StorageError
from headwater.log.log import Log
from headwater.log.partition import Partition
from headwater.log.settings import LogSettings
from headwater.log.store import Store
from headwater.server.audit import note_change
from headwater.server.management.logs import is_valid_name, make_log, numbered_partitions
from headwater.server.security.access import Access
from headwater.server.security.identity import Identity
from headwater.server.security.name_pattern import NamePattern

__all__ = ["AutoCreate", "LogNode", "Nodes", "Refused", "no_partition", "whole"]

RESERVED_PREFIX = "$"
QUEUES_PREFIX = "/queues/"
DYNAMIC_PREFIX = "dynamic-"
IDS_TOLD_MAX = 16
"""Of partitions, to who asks for one that is not there."""
DYNAMIC_BYTES_MAX = 64 << 20
"""What a node that lives as long as its link keeps; older messages go."""

logger = logging.getLogger("headwater.amqp")

_DYNAMIC_TOKEN_BYTES = 8
_DYNAMIC_NAME = re.compile(rf"{DYNAMIC_PREFIX}([0-9A-Za-z]+-)?[0-9a-f]{{{2 * _DYNAMIC_TOKEN_BYTES}}}")
_DYNAMIC_SETTINGS = LogSettings(durability="memory", max_bytes=DYNAMIC_BYTES_MAX)


class Refused(CallerError):
    """A link cannot be; its peer is told why."""

    def __init__(self, condition: Symbol, description: str) -> None:
        self.condition, self.description = condition, description
        super().__init__(f"{condition}: {description}")

    @property
    def value(self) -> ErrorValue:
        """The same as it goes over the wire."""
        return ErrorValue(self.condition, self.description)


class AutoCreate(msgspec.Struct, frozen=True):
    """Whether logs come into being when somebody writes to them, and which."""

    is_enabled: bool = True
    partition_count: int = 1
    pattern: NamePattern | None = None


class LogNode(msgspec.Struct, frozen=True):
    """A log, or one partition of it, as a node to attach to."""

    name: str
    """As permissions know it."""
    log: Log
    """The whole of it."""
    partitions: tuple[Partition, ...]
    ids: tuple[str, ...]
    """Of the partitions, as event streams name them."""
    is_bound: bool = False
    """Whether it is one partition, for that was asked for: by its own address, or by a property of the link."""

    def bound(self, partition_id: str | None) -> LogNode:
        """The one partition that a link asked for, all of them for None; raises `Refused` if there is none such."""
        if partition_id is None or (self.is_bound and partition_id == self.ids[0]):
            return self
        if self.is_bound:
            raise Refused(
                Condition.NOT_FOUND,
                f"{self.name!r:.100} is partition {self.ids[0]!r} of its log, and not {partition_id!r:.100}",
            )
        _check_partition(partition_id, self.ids, self.name)
        number = self.ids.index(partition_id)
        return LogNode(self.name, self.log, (self.partitions[number],), (partition_id,), is_bound=True)

    def bound_to(self, number: int) -> LogNode:
        """The one partition of this number in the log, if it is still there."""
        return self.bound(dict(zip(self.numbered, self.ids, strict=True)).get(number))

    @property
    def numbered(self) -> dict[int, Partition]:
        """The partitions by their numbers in the log."""
        own = set(self.partitions)
        everything = zip(self.log.numbers, self.log.partitions, strict=True)
        return {number: each for number, each in everything if each in own}


class Nodes:
    """Logs by address, for users who may do with them what they ask for."""

    def __init__(self, store: Store, access: Access, auto_create: AutoCreate, door: str = "amqp") -> None:
        """The audit log says at which door a log was made."""
        self._door = door
        self._store = store
        self._access = access
        self._auto_create = auto_create

    def to_read(
        self,
        identity: Identity,
        vhost: str,
        address: str,
        partition_id: str | None = None,
        *,
        creates: bool = False,
    ) -> LogNode:
        """The node to receive from, made if that is allowed and wanted; raises `Refused`."""
        name = _name_of(address)
        if not self._access.may_read(identity, vhost, name):
            raise Refused(Condition.UNAUTHORIZED_ACCESS, f"user {identity.user!r} may not read {name!r:.100}")
        found = self.find(vhost, name)
        if found is None and creates:
            return self._created(identity, vhost, name, partition_id)
        if found is None:
            raise Refused(Condition.NOT_FOUND, f"there is no log {name!r:.100}; create it, or check the name")
        return found.bound(partition_id)

    def to_write(
        self, identity: Identity, vhost: str, address: str, partition_id: str | None = None
    ) -> LogNode:
        """The node to send to, made if that is allowed; raises `Refused`."""
        name = _name_of(address)
        if not self._access.may_write(identity, vhost, name):
            raise Refused(
                Condition.UNAUTHORIZED_ACCESS, f"user {identity.user!r} may not write to {name!r:.100}"
            )
        found = self.find(vhost, name)
        return (
            self._created(identity, vhost, name, partition_id) if found is None else found.bound(partition_id)
        )

    def to_reply(self, identity: Identity, vhost: str, address: str, *, is_own: bool) -> LogNode:
        """The node for an answer, which is never made for that; raises `Refused`."""
        name = _name_of(address)
        if not is_own and not self._access.may_write(identity, vhost, name):
            raise Refused(Condition.UNAUTHORIZED_ACCESS, f"user {identity.user!r} may not write to {name!r}")
        found = self.find(vhost, name)
        if found is None:
            raise Refused(Condition.NOT_FOUND, f"there is no node {name!r} to reply to")
        return found

    def dynamic(
        self, identity: Identity, vhost: str, container_id: str, partition_id: str | None = None
    ) -> LogNode:
        """A new node with a name of our own, which whoever asked for it deletes; raises `Refused`."""
        label = "".join(char for char in container_id if char.isascii() and char.isalnum())[:32]
        name = DYNAMIC_PREFIX + (label and f"{label}-") + secrets.token_hex(_DYNAMIC_TOKEN_BYTES)
        if not self._access.may_configure(identity, vhost, name):
            raise Refused(Condition.UNAUTHORIZED_ACCESS, f"user {identity.user!r} may not make dynamic nodes")
        if partition_id is not None:
            _check_partition(partition_id, ("0",), "a dynamic node")
        return self._make(vhost, name, 1, _DYNAMIC_SETTINGS).bound(partition_id)

    def delete(self, vhost: str, name: str) -> None:
        """Delete a dynamic node, if it is still there; what cannot be deleted now goes at the next start."""
        if (vhost, name) in self._store.logs:
            try:
                self._store.delete_log(name, vhost)
            except StorageError as error:
                logger.error("%s: %s", name, error)

    def delete_left_over(self) -> None:
        """Delete the dynamic nodes of links that ended with an earlier server, which could not do it."""
        for (vhost, name), log in list(self._store.logs.items()):
            if _DYNAMIC_NAME.fullmatch(name) and log.definition.is_asked_for_by(_DYNAMIC_SETTINGS):
                self.delete(vhost, name)

    def log(self, vhost: str, name: str) -> Log | None:
        """The log of a name, if there is one; not a partition."""
        return self._store.logs.get((vhost, name))

    def find(self, vhost: str, name: str) -> LogNode | None:
        """The node of a name, if there is one."""
        log = self._store.logs.get((vhost, name))
        if log is not None:
            return whole(log)
        partition = self._store.stream(name, vhost)
        if partition is None:
            return None
        found = next(whole(each) for each in self._store.logs.values() if partition in each.partitions)
        id_ = found.ids[found.partitions.index(partition)]
        return LogNode(name, found.log, (partition,), (id_,), is_bound=True)

    def _created(self, identity: Identity, vhost: str, name: str, partition_id: str | None) -> LogNode:
        policy = self._auto_create
        missing = f"there is no log {name!r:.100}"
        if not policy.is_enabled:
            raise Refused(Condition.NOT_FOUND, f"{missing}, and auto_create is off; create it first")
        if _DYNAMIC_NAME.fullmatch(name):
            raise Refused(Condition.NOT_FOUND, f"{missing}: whoever asked for this dynamic node is gone")
        if not is_valid_name(name) or name.startswith(RESERVED_PREFIX) or "/" in name:
            raise Refused(Condition.NOT_FOUND, f"{missing}, and none of this name can be made")
        if policy.pattern is not None and not policy.pattern.matches(name):
            raise Refused(Condition.NOT_FOUND, f"{missing}, and auto_create_pattern does not match it")
        if not self._access.may_configure(identity, vhost, name):
            raise Refused(
                Condition.UNAUTHORIZED_ACCESS, f"{missing}, and user {identity.user!r} may not make it"
            )
        if partition_id is not None:
            # First, so that a link that is refused makes no log.
            _check_partition(partition_id, tuple(map(str, range(policy.partition_count))), name)
        made = self._make(vhost, name, policy.partition_count, LogSettings())
        note_change(identity.user, "", self._door, f"auto_create {name!r} in {vhost!r}", "created")
        return made.bound(partition_id)

    def _make(self, vhost: str, name: str, partition_count: int, settings: LogSettings) -> LogNode:
        try:
            if partition_count == 1:
                log = make_log(self._store, vhost, name, "stream", (), settings)
            else:
                partitions = numbered_partitions(name, partition_count)
                log = make_log(self._store, vhost, name, "super_stream", partitions, settings)
        except LogExists as error:
            raise Refused(Condition.PRECONDITION_FAILED, str(error)) from error
        except StorageError as error:
            raise Refused(Condition.RESOURCE_LIMIT_EXCEEDED, str(error)) from error
        except HeadwaterError as error:
            raise Refused(Condition.INVALID_FIELD, str(error)) from error
        return whole(log)


def no_partition(partition_id: str, ids: Sequence[str], name: str) -> Refused:
    """What is told to who asks for a partition that is not there."""
    known = ", ".join(ids[:IDS_TOLD_MAX]) + (", ..." if len(ids) > IDS_TOLD_MAX else "")
    return Refused(
        Condition.NOT_FOUND, f"{name!r:.100} has no partition {partition_id!r:.100}; it has {known:.500}"
    )


def _check_partition(partition_id: str, ids: Sequence[str], name: str) -> None:
    if partition_id not in ids:
        raise no_partition(partition_id, ids, name)


def whole(log: Log) -> LogNode:
    """A log with all of its partitions, as they are now."""
    return LogNode(log.name, log, tuple(log.partitions), log.definition.partition_ids)


def _name_of(address: str) -> str:
    """The name in an address: itself, or percent-encoded behind RabbitMQ's prefix for queues and streams."""
    if address.startswith(QUEUES_PREFIX):
        return unquote(address.removeprefix(QUEUES_PREFIX))
    return address
