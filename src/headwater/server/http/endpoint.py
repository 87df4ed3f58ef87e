"""Endpoints of the HTTP door: each declared once, with who may ask, what is taken and answered, what goes wrong.

The same declaration is what a request is held to (`serving`), and what `/openapi.json` says (`openapi`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from aiohttp import web
from msgspec import Meta

from headwater.server.http.answers import Refused
from headwater.server.http.problems import FORBIDDEN, UNKNOWN_LOG, Kind
from headwater.server.management.viewer import Viewer
from headwater.server.security.access import Access
from headwater.server.security.identity import Identity
from headwater.server.security.permissions import Right
from headwater.server.security.users import DEFAULT_VHOST

__all__ = [
    "ADMIN",
    "BODY_BYTES_MAX",
    "CONFIGURE",
    "MONITOR",
    "PUBLIC",
    "READ",
    "SEE",
    "USER",
    "WRITE",
    "Answer",
    "Call",
    "Empty",
    "Endpoint",
    "InVhost",
    "Media",
    "Needs",
    "Vhost",
    "forbidden",
    "location",
]

BODY_BYTES_MAX = 64 * 1024
"""Of a request that takes JSON, unless its endpoint says otherwise."""

LOG_PART = "log"


Vhost = Annotated[str, Meta(min_length=1, description="The vhost of the log.")]


class Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters, or no body."""


class InVhost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What every endpoint below /logs takes."""

    vhost: Vhost = DEFAULT_VHOST


QueryT = TypeVar("QueryT", bound=msgspec.Struct)
BodyT = TypeVar("BodyT")


class Call(Viewer, Generic[QueryT, BodyT]):
    """One request of one user, who may make it, with its parameters and its body as they were declared."""

    def __init__(
        self, access: Access, identity: Identity, request: web.Request, query: QueryT, body: BodyT
    ) -> None:
        super().__init__(access, identity)
        self.request = request
        self.query = query
        self.body = body
        self.changed = ""
        """What the audit log says beside method and path; never a secret."""
        self.location = ""
        """Path of what was made."""

    def part(self, name: str) -> str:
        """A part of the path, decoded."""
        return self.request.match_info[name]

    def require_configure(self, vhost: str, *names: str) -> None:
        """Refuse who may not make, change and delete logs of these names."""
        for name in names:
            if not self.may_configure(vhost, name):
                raise forbidden(f"configure {name!r} in the vhost {vhost!r}")


@dataclass(frozen=True, slots=True)
class Needs:
    """Who may ask; the check comes before anything is looked at, so that a refusal tells nothing."""

    description: str
    """Completes the sentence: this is for …"""
    check: Callable[[Viewer, str, str], None]
    """Raises `Refused`; is given the vhost and the log that the request names, which are empty if it names none."""
    is_public: bool = False


def forbidden(what: str) -> Refused:
    """The user is known, and may not."""
    return FORBIDDEN.refused(f"this user may not {what}; ask an administrator for it")


def _anybody(_viewer: Viewer, _vhost: str, _log: str) -> None:
    pass


def _admin(viewer: Viewer, _vhost: str, _log: str) -> None:
    if not viewer.access.is_admin(viewer.identity):
        raise forbidden("do that without the role admin")


def _monitor(viewer: Viewer, _vhost: str, _log: str) -> None:
    if not viewer.may_monitor:
        raise forbidden("see that without the role monitor or admin")


def _see(viewer: Viewer, vhost: str, log: str) -> None:
    if not viewer.sees_log(vhost, log):
        raise forbidden(f"see the log {log!r} in the vhost {vhost!r}")


def _right(right: Right) -> Callable[[Viewer, str, str], None]:
    def check(viewer: Viewer, vhost: str, log: str) -> None:
        access = viewer.access
        may = {
            Right.CONFIGURE: access.may_configure,
            Right.WRITE: access.may_write,
            Right.READ: access.may_read,
        }[right]
        if not may(viewer.identity, vhost, log):
            raise forbidden(f"{right} the log {log!r} in the vhost {vhost!r}")

    return check


PUBLIC = Needs("everybody, without a name", _anybody, is_public=True)
USER = Needs("every user", _anybody)
ADMIN = Needs("users with the role admin", _admin)
MONITOR = Needs("users with the role monitor or admin", _monitor)
SEE = Needs("users with any permission on the log, and with the role monitor or admin", _see)
CONFIGURE = Needs("users with the permission configure on the log", _right(Right.CONFIGURE))
WRITE = Needs("users with the permission write on the log", _right(Right.WRITE))
READ = Needs("users with the permission read on the log", _right(Right.READ))


@dataclass(frozen=True, slots=True)
class Media:
    """Bodies that are no plain JSON: their content types, each with its schema; under */* all others are taken too."""

    schemas: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered when all goes well: a status, and the type of the body, if there is one."""

    status: int = 200
    body: Any = None
    """A type that msgspec knows, `Media`, or None for an answer without a body."""
    description: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names, and what they mean."""


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[QueryT, BodyT]):
    """One method of one path. What its handler gives is the body of the answer, or a response of its own making."""

    method: str
    path: str
    handler: Callable[[Call[QueryT, BodyT]], Awaitable[Any]]
    """The first line of its docstring is what the OpenAPI document says."""
    needs: Needs
    answers: Sequence[Answer]
    """The first is what a value that the handler gives becomes."""
    query: type[QueryT] = Empty  # type: ignore[assignment]
    body: Any = None
    """The type of `Call.body`; None where no body is taken; with `Media` the handler reads the request itself."""
    body_bytes_max: int = BODY_BYTES_MAX
    problems: tuple[Kind, ...] = ()
    """What may go wrong beside what may go wrong everywhere."""
    is_change: bool | None = None
    """Whether the audit log tells of it; if nothing is said, all methods but GET are."""

    @property
    def name(self) -> str:
        """Of the handler: the operation's id."""
        return getattr(self.handler, "__name__", "").strip("_")

    @property
    def is_audited(self) -> bool:
        """Whether the audit log tells of it."""
        return self.method != "GET" if self.is_change is None else self.is_change

    @property
    def parts(self) -> list[str]:
        """The variable parts of the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def all_problems(self) -> tuple[Kind, ...]:
        """Those of its own, and that of a log that its path names."""
        return (UNKNOWN_LOG, *self.problems) if LOG_PART in self.parts else self.problems


def location(*parts: str) -> str:
    """The path of something that was made, each part encoded."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)
