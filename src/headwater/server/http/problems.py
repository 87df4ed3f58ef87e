"""RFC 9457: what every error of the HTTP door looks like (`application/problem+json`), and which error is which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec
from aiohttp import web

from headwater.errors import (
    CallerError,
    DiskFull,
    EntryTooLarge,
    HeadwaterError,
    InvalidExpression,
    InvalidSettings,
    LogBusy,
    LogDiffers,
    LogExists,
    OffsetBeyondEnd,
    PartitionDeleted,
    PartitionReadOnly,
    PartitionUsed,
    StorageError,
    TooManyOffsets,
    UnknownLog,
    UnknownPartition,
)
from headwater.server.http.answers import Refused
from headwater.server.management.consumer_errors import (
    GroupExists,
    GroupNotMade,
    NotDurable,
    UnknownGroup,
    UnknownSubscription,
)
from headwater.server.security.errors import (
    CatalogueBusy,
    CatalogueFull,
    UnknownUser,
    UnknownVhost,
    UserExists,
    VhostExists,
)

__all__ = [
    "BAD_REQUEST",
    "CONTENT_TYPE",
    "FORBIDDEN",
    "FULL",
    "GROUP_EXISTS",
    "INTERNAL",
    "INVALID",
    "INVALID_EVENT",
    "KEY_REUSED",
    "LOG_EXISTS",
    "NOT_ALLOWED",
    "NOT_DURABLE",
    "NOT_FOUND",
    "NOT_JSON",
    "STORAGE",
    "TIMEOUT",
    "TOO_LARGE",
    "UNAUTHORIZED",
    "UNAVAILABLE",
    "UNKNOWN_CONNECTION",
    "UNKNOWN_GROUP",
    "UNKNOWN_LOG",
    "UNKNOWN_PARTITION",
    "UNKNOWN_SUBSCRIPTION",
    "UNKNOWN_USER",
    "UNKNOWN_VHOST",
    "USER_EXISTS",
    "Kind",
    "Problem",
    "http_refusal",
    "problem_answer",
    "refusal_of",
]

CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:headwater:problem:"
RETRY_S = "1"


class Problem(msgspec.Struct, frozen=True):
    """The body of every answer that is an error (RFC 9457)."""

    type: str
    """For programs: urn:headwater:problem: and a word."""
    title: str
    """For people: what kind of error it is."""
    status: int
    detail: str
    """What happened this time, and what to do about it."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of error: the word that programs see, and what it is called."""

    status: int
    word: str
    title: str
    headers: Mapping[str, str] = field(default_factory=dict)
    told: str = ""
    """What is said in place of an error's own words, which name files of the server."""

    def refused(self, detail: str, headers: Mapping[str, str] | None = None) -> Refused:
        """This error, to be raised."""
        return Refused(self.status, self.word, detail, {**self.headers, **(headers or {})})


BAD_REQUEST = Kind(400, "bad-request", "The request is not as it must be")
INVALID = Kind(422, "invalid", "The request is well formed, and a value in it cannot be used")
INVALID_EVENT = Kind(400, "invalid-cloudevent", "What was sent is no CloudEvent")
UNAUTHORIZED = Kind(401, "not-authorized", "Name and password, or a certificate, are needed")
FORBIDDEN = Kind(403, "forbidden", "This user may not do that")
NOT_FOUND = Kind(404, "not-found", "There is nothing here")
UNKNOWN_LOG = Kind(404, "unknown-log", "There is no such log")
UNKNOWN_PARTITION = Kind(404, "unknown-partition", "The log has no such partition")
UNKNOWN_USER = Kind(404, "unknown-user", "There is no such user")
UNKNOWN_VHOST = Kind(404, "unknown-vhost", "There is no such vhost")
UNKNOWN_GROUP = Kind(404, "unknown-group", "The log has no such consumer group")
UNKNOWN_SUBSCRIPTION = Kind(404, "unknown-subscription", "There is no such subscription")
UNKNOWN_CONNECTION = Kind(404, "unknown-connection", "There is no such connection")
NOT_ALLOWED = Kind(405, "method-not-allowed", "This method is not served here")
TIMEOUT = Kind(408, "request-timeout", "The request did not end in time")
LOG_EXISTS = Kind(409, "log-exists", "A log of this name is there already")
GROUP_EXISTS = Kind(409, "group-exists", "A consumer group of this name is there already")
NOT_DURABLE = Kind(409, "not-durable", "The subscription keeps no position")
PARTITION_USED = Kind(409, "partition-used", "The log has been used")
USER_EXISTS = Kind(409, "user-exists", "A user of this name is there already")
VHOST_EXISTS = Kind(409, "vhost-exists", "A vhost of this name is there already")
FULL = Kind(409, "full", "There are as many as there may be")
TOO_LARGE = Kind(413, "payload-too-large", "The body is too large")
NOT_JSON = Kind(415, "unsupported-media-type", "The body is of another type than is taken here")
KEY_REUSED = Kind(422, "idempotency-key-reused", "The key stands for another request")
UPGRADE = Kind(426, "upgrade-required", "Another protocol is spoken here")
INTERNAL = Kind(500, "internal-server-error", "The server failed")
STORAGE = Kind(
    500, "storage", "The disk, or what lies on it, failed", told="see the log of the server, then try again"
)
UNAVAILABLE = Kind(503, "service-unavailable", "Not at this moment", {"Retry-After": RETRY_S})
READ_ONLY = Kind(
    503,
    "read-only",
    "Nothing can be written there",
    told="the partition was damaged, or its disk failed; see the log of the server, mend the cause and restart it",
)
DISK_FULL = Kind(
    507,
    "disk-full",
    "There is no room on the disk",
    told="free space on the disk of the server; writing then resumes by itself",
)

_KINDS: Mapping[type[HeadwaterError], Kind] = {
    UnknownLog: UNKNOWN_LOG,
    UnknownPartition: UNKNOWN_PARTITION,
    UnknownUser: UNKNOWN_USER,
    UnknownVhost: UNKNOWN_VHOST,
    UnknownGroup: UNKNOWN_GROUP,
    UnknownSubscription: UNKNOWN_SUBSCRIPTION,
    LogExists: LOG_EXISTS,
    LogDiffers: LOG_EXISTS,
    UserExists: USER_EXISTS,
    VhostExists: VHOST_EXISTS,
    GroupExists: GROUP_EXISTS,
    GroupNotMade: FULL,
    NotDurable: NOT_DURABLE,
    PartitionUsed: PARTITION_USED,
    CatalogueFull: FULL,
    CatalogueBusy: UNAVAILABLE,
    LogBusy: UNAVAILABLE,
    TooManyOffsets: UNAVAILABLE,
    PartitionDeleted: UNKNOWN_LOG,
    PartitionReadOnly: READ_ONLY,
    DiskFull: DISK_FULL,
    EntryTooLarge: TOO_LARGE,
    OffsetBeyondEnd: INVALID,
    InvalidSettings: INVALID,
    InvalidExpression: INVALID,
    CallerError: INVALID,
    StorageError: STORAGE,
}

_TITLES = {kind.word: kind.title for kind in globals().values() if isinstance(kind, Kind)}


def refusal_of(error: HeadwaterError) -> Refused:
    """The refusal that an error of ours becomes; the nearest class that the table knows decides."""
    for base in type(error).__mro__:
        kind = _KINDS.get(base)
        if kind is not None:
            return kind.refused(kind.told or str(error))
    return INTERNAL.refused("the log of the server says more")


def http_refusal(error: web.HTTPException) -> Refused:
    """The refusal that an error of the library becomes, such as a path or a method that is not served."""
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    match error.status:
        case HTTPStatus.NOT_FOUND:
            return NOT_FOUND.refused("no such path is served; /openapi.json lists those that are")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = headers.get("Allow", "others")
            return NOT_ALLOWED.refused(f"this path takes {allowed}", headers)
        case HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return TOO_LARGE.refused(str(error.text), headers)
    words = HTTPStatus(error.status).phrase
    return Refused(error.status, words.lower().replace(" ", "-"), f"{words}: see docs/http.md", headers)


def problem_answer(refused: Refused) -> web.Response:
    """A refusal as RFC 9457 has it."""
    word = refused.error.lower().replace("_", "-").replace(" ", "-")
    title = _TITLES.get(word) or HTTPStatus(refused.status).phrase
    body = Problem(TYPE_PREFIX + word, title, refused.status, refused.reason)
    return web.Response(
        body=msgspec.json.encode(body),
        status=refused.status,
        content_type=CONTENT_TYPE,
        headers={"Cache-Control": "no-store", **refused.headers},
    )
