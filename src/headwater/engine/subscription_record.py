"""A durable subscription or terminus in `$state`: who it is, and what it was granted.

[ 1                      version
  vhost, log, log id     a log of that name with another id is another log: the subscription is over
  user, container        null: global
  name                   of a subscription the link name up to the first '|', of a terminus all of it
  kind                   1 subscription, 2 terminus
  shared
  bound                  whether it keeps to the partitions that it has, when the log gets more
  filter                 as the shell wrote it; compared, never read
  expiry                 0 link-detach, 1 session-end, 2 connection-close, 3 never
  timeout ]              ms
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from headwater.engine.state_record import SUBSCRIPTION, Put, decode, encode, owner_digest, owner_key

__all__ = [
    "FILTER_BYTES_MAX",
    "NAME_BYTES_MAX",
    "Definition",
    "Expiry",
    "Kind",
    "SubscriptionId",
    "decode_definition",
    "put_definition",
    "subscription_name",
]

NAME_BYTES_MAX = 4_096
FILTER_BYTES_MAX = 64 << 10
_TIMEOUT_MS_MAX = (1 << 32) * 1000
_LOG_ID_MAX = (1 << 63) - 1


class Kind(enum.IntEnum):
    """What a durable link is to (ES-4)."""

    SUBSCRIPTION = 1
    """A topic subscription: identified up to the '|', another filter is refused."""
    TERMINUS = 2
    """A durable terminus of Event Stream Extensions: the position it kept beats the filter of a re-attach."""


class Expiry(enum.IntEnum):
    """AMQP 1.0 part 3, section 3.5.6: the end of what lets the time-out of a terminus run."""

    LINK_DETACH = 0
    SESSION_END = 1
    CONNECTION_CLOSE = 2
    NEVER = 3


class SubscriptionId(msgspec.Struct, frozen=True):
    """What links attach to when they name the same."""

    vhost: str
    log: str
    container: str | None
    name: str
    kind: Kind = Kind.SUBSCRIPTION
    user: str | None = None
    """Whose it is; of one that is global, nobody's."""

    @property
    def digest(self) -> bytes:
        """What stands for it in keys."""
        return owner_digest(
            SUBSCRIPTION, self.vhost, self.log, self.user, self.container, self.name, self.kind.name
        )


class Definition(msgspec.Struct, frozen=True):
    """What a subscription is."""

    id: SubscriptionId
    log_id: int = 0
    is_shared: bool = False
    is_durable: bool = True
    bound_partition: int | None = None
    filter: bytes = b""
    expiry: Expiry = Expiry.NEVER
    timeout_ms: int = 0


class _Record(msgspec.Struct, frozen=True, array_like=True, tag=1, forbid_unknown_fields=True):
    vhost: str
    log: str
    log_id: Annotated[int, msgspec.Meta(ge=0, le=_LOG_ID_MAX)]
    user: str | None
    container: str | None
    name: str
    kind: Kind
    is_shared: bool
    bound_partition: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)] | None
    filter: Annotated[bytes, msgspec.Meta(max_length=FILTER_BYTES_MAX)]
    expiry: Expiry
    timeout_ms: Annotated[int, msgspec.Meta(ge=0, le=_TIMEOUT_MS_MAX)]


def put_definition(definition: Definition) -> Put:
    """What records a durable subscription."""
    assert definition.is_durable, "others live with their consumers"
    id_ = definition.id
    record = _Record(
        id_.vhost,
        id_.log,
        definition.log_id,
        id_.user,
        id_.container,
        id_.name,
        id_.kind,
        definition.is_shared,
        definition.bound_partition,
        definition.filter,
        definition.expiry,
        definition.timeout_ms,
    )
    return Put(owner_key(SUBSCRIPTION, id_.digest), encode(record))


def decode_definition(data: bytes) -> Definition:
    """A durable subscription by its record; raises `MalformedState`."""
    record = decode(data, _Record)
    return Definition(
        SubscriptionId(record.vhost, record.log, record.container, record.name, record.kind, record.user),
        record.log_id,
        record.is_shared,
        True,
        record.bound_partition,
        record.filter,
        record.expiry,
        record.timeout_ms,
    )


def subscription_name(link_name: str) -> str:
    """TS-4: what comes behind the first '|' only tells links apart."""
    return link_name.partition("|")[0]
