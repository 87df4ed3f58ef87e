"""/groups: consumer groups made, listed, looked at, reset and ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headwater.engine.group import Group
from headwater.engine.group_record import GROUP_NAME_BYTES_MAX
from headwater.log.log import NAME_BYTES_MAX
from headwater.server.consumers.consumer import Member
from headwater.server.http.endpoint import (
    USER,
    Answer,
    Call,
    Endpoint,
    InVhost,
    Needs,
    forbidden,
    location,
)
from headwater.server.http.problems import (
    FULL,
    GROUP_EXISTS,
    INVALID,
    UNKNOWN_GROUP,
    UNKNOWN_LOG,
    UNKNOWN_PARTITION,
)
from headwater.server.http.resetting import ConsumerPage, Reset, Target
from headwater.server.management.consumer_shapes import GroupShown, GroupSummary
from headwater.server.management.groups import ManagedGroups
from headwater.server.management.reset_target import parse_target
from headwater.server.management.viewer import Viewer

__all__ = ["GroupEndpoints"]


class NewGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A consumer group that is to be made."""

    log: Annotated[str, Meta(min_length=1, max_length=NAME_BYTES_MAX)]
    name: Annotated[str, Meta(min_length=1, max_length=GROUP_NAME_BYTES_MAX)]
    start: Annotated[
        Target | None,
        Meta(description="Where it begins; without it, where the first link that has a partition asks to."),
    ] = None


class GroupList(msgspec.Struct, frozen=True):
    """Groups by their ids."""

    groups: list[GroupSummary]
    next: Annotated[
        str | None, Meta(description="What to give as `after` for the next page; null on the last one.")
    ]


def _check_seen(viewer: Viewer, vhost: str, log: str) -> None:
    if not viewer.sees_consumers(vhost, log):
        raise forbidden(f"see who consumes from {log!r} in the vhost {vhost!r}")


def _check_changeable(viewer: Viewer, vhost: str, log: str) -> None:
    if not viewer.may_change_consumers(vhost, log):
        raise forbidden(f"read and configure {log!r} in the vhost {vhost!r}")


SEE_CONSUMERS = Needs(
    "users with the permission read on the log, and with the role monitor or admin", _check_seen
)
CHANGE_CONSUMERS = Needs(
    "users with the permissions read and configure on the log, and with the role admin", _check_changeable
)


class GroupEndpoints:
    """What /groups does with the consumer groups of all logs."""

    def __init__(self, groups: ManagedGroups) -> None:
        self._groups = groups

    def endpoints(self) -> Sequence[Endpoint[Any, Any]]:
        """All of them."""
        shown, path, unknown = Answer(200, GroupShown), "/groups/{log}/{group}", (UNKNOWN_GROUP,)
        return [
            Endpoint("GET", "/groups", self.list_groups, USER, [Answer(200, GroupList)], ConsumerPage),
            Endpoint(
                "POST",
                "/groups",
                self.create_group,
                USER,
                [Answer(201, GroupShown, "It is there, durably.", {"Location": "Path of the group."})],
                InVhost,
                NewGroup,
                problems=(UNKNOWN_LOG, GROUP_EXISTS, FULL, INVALID),
            ),
            Endpoint("GET", path, self.get_group, SEE_CONSUMERS, [shown], InVhost, problems=unknown),
            Endpoint(
                "POST",
                path + "/reset",
                self.reset_group,
                CHANGE_CONSUMERS,
                [shown],
                InVhost,
                Reset,
                problems=(*unknown, UNKNOWN_PARTITION, INVALID),
            ),
            Endpoint(
                "DELETE", path, self.end_group, CHANGE_CONSUMERS, [Answer(204)], InVhost, problems=unknown
            ),
        ]

    async def list_groups(self, call: Call[ConsumerPage, None]) -> GroupList:
        """List the consumer groups of logs that the user may read, by id."""
        query = call.query
        return GroupList(*await self._groups.page(call, query.vhost, query.log, query.after, query.limit))

    async def create_group(self, call: Call[InVhost, NewGroup]) -> GroupShown:
        """Make a consumer group; one that links made is kept as it is, and is an operator's from now on.

        The user needs the permissions read and configure on the log, or the role admin.
        """
        wanted, vhost = call.body, call.query.vhost
        _check_changeable(call, vhost, wanted.log)
        start = None if wanted.start is None else parse_target(wanted.start)
        call.changed = f"made the group {wanted.name!r} of {wanted.log!r}"
        group = await self._groups.make(vhost, wanted.log, wanted.name, start)
        call.location = location("groups", wanted.log, wanted.name)
        return self._groups.view(call).group(group)

    async def get_group(self, call: Call[InVhost, None]) -> GroupShown:
        """Show a consumer group with its members, and where it stands in each partition."""
        return self._groups.view(call).group(self._group(call))

    async def reset_group(self, call: Call[InVhost, Reset]) -> GroupShown:
        """Have a consumer group go on from elsewhere; its links that read there are ended, to attach anew."""
        group, wanted = self._group(call), call.body
        call.changed = f"partition {wanted.partition or 'all'} to {wanted.to}"
        await self._groups.reset(group, parse_target(wanted.to), wanted.partition)
        return self._groups.view(call).group(group)

    async def end_group(self, call: Call[InVhost, None]) -> None:
        """End a consumer group with its positions; its links are told that it is no more."""
        await self._groups.end(self._group(call))

    def _group(self, call: Call[InVhost, Any]) -> Group[Member]:
        return self._groups.find(call.query.vhost, call.part("log"), call.part("group"))
