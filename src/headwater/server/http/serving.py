"""What happens to every request: who asks, may they, is it well formed; then the handler, the answer, the audit log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from aiohttp import web

from headwater.errors import HeadwaterError, StorageError
from headwater.server.audit import Outcome, note_change
from headwater.server.http.answers import Refused, json_answer, read_body
from headwater.server.http.authentication import BasicAuthentication
from headwater.server.http.endpoint import LOG_PART, Call, Endpoint, Media
from headwater.server.http.problems import (
    BAD_REQUEST,
    INTERNAL,
    NOT_JSON,
    http_refusal,
    problem_answer,
    refusal_of,
)
from headwater.server.listening import address_of
from headwater.server.management.viewer import Viewer
from headwater.server.security.access import Access
from headwater.server.security.identity import Identity

__all__ = ["HttpFigures", "Serving", "peer_address"]

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
ANY_TYPE = "*/*"
UNANSWERED = "unanswered"
"""The outcome of a change that was under way when the server stopped: it may have come about."""
NOBODY = Identity("", 0, frozenset(), is_loopback=False)

logger = logging.getLogger("headwater.http")


class HttpFigures:
    """What was answered since the server started, by method, path as declared, and status."""

    def __init__(self) -> None:
        self.answered: Counter[tuple[str, str, int]] = Counter()
        self.seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.received_bytes = 0
        """By all connections, whatever they sent."""
        self.sent_bytes = 0
        """Bodies of answers."""

    def count(self, method: str, path: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self.answered[method, path, status] += 1
        self.seconds[method, path] += seconds

    def count_of(self, method: str, path: str) -> int:
        """Requests that were answered, whatever with."""
        return sum(count for (*of, _), count in self.answered.items() if of == [method, path])


class Serving:
    """Puts endpoints into an application."""

    def __init__(self, access: Access, authentication: BasicAuthentication, figures: HttpFigures) -> None:
        self.access = access
        self.authentication = authentication
        self.figures = figures

    def add(self, application: web.Application, endpoints: Iterable[Endpoint[Any, Any]]) -> None:
        """Serve these."""
        for endpoint in endpoints:
            served = _Served(self, endpoint)
            application.router.add_route(endpoint.method, endpoint.path, served.answer)
            if endpoint.method == "GET" and not isinstance(endpoint.answers[0].body, Media):
                application.router.add_route("HEAD", endpoint.path, served.answer)


class _Served:
    """One endpoint, with what can be prepared before the first request comes."""

    def __init__(self, serving: Serving, endpoint: Endpoint[Any, Any]) -> None:
        self._serving = serving
        self._endpoint = endpoint
        self._lists = {
            field.encode_name
            for field in msgspec.structs.fields(endpoint.query)
            if str(field.type).removeprefix("typing.Annotated[").startswith(("list", "tuple"))
        }
        self._takes_json = endpoint.body is not None and not isinstance(endpoint.body, Media)
        self._decoder = msgspec.json.Decoder(endpoint.body) if self._takes_json else None
        self._media_types = {JSON, MERGE_PATCH} if endpoint.method == "PATCH" else {JSON}
        self._names_log = LOG_PART in endpoint.parts
        needs_some = any(field.required for field in msgspec.structs.fields(endpoint.query))
        self._without_parameters: msgspec.Struct | None = None if needs_some else endpoint.query()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Whatever the request is, an answer to it."""
        began = time.perf_counter()
        endpoint = self._endpoint
        call: Call[Any, Any] = Call(self._serving.access, NOBODY, request, None, None)
        try:
            response = await self._carry_out(call, request)
        except Refused as refused:
            response = problem_answer(refused)
        except web.HTTPException as error:
            response = problem_answer(http_refusal(error))
        except web.RequestPayloadError:
            response = problem_answer(BAD_REQUEST.refused("the body does not parse as the headers say"))
        except HeadwaterError as error:
            if isinstance(error, StorageError):
                logger.error("%s %s: %s", request.method, request.path, error)
            response = problem_answer(refusal_of(error))
        except (ConnectionError, asyncio.CancelledError):
            self._note(call, request, UNANSWERED)
            raise  # nobody is there to be answered
        except Exception:  # a bug of ours: the client is told no more than that
            logger.exception("%s %s failed", request.method, request.path)
            response = problem_answer(INTERNAL.refused("the log of the server says more"))
        self._note(call, request, response.status)
        seconds = time.perf_counter() - began
        figures = self._serving.figures
        figures.count(endpoint.method, endpoint.path, response.status, seconds)
        if isinstance(response, web.Response):
            figures.sent_bytes += response.content_length or 0
        return response

    def _note(self, call: Call[Any, Any], request: web.Request, outcome: Outcome) -> None:
        """Have the audit log tell of a change; who did not come in fills no log."""
        endpoint, user = self._endpoint, call.identity
        if endpoint.is_audited and (user is not NOBODY or endpoint.needs.is_public):
            action = f"{request.method} {request.path_qs}"
            note_change(user.user, peer_address(request), "http", action, outcome, changed=call.changed)

    async def _carry_out(self, call: Call[Any, Any], request: web.Request) -> web.StreamResponse:
        endpoint = self._endpoint
        _check_path(request)
        if not endpoint.needs.is_public:
            call.identity = await self._serving.authentication.identify(request)
            call.query = self._query(request)
            self._check_needs(call)
        else:
            call.query = self._query(request)
        if self._decoder is not None:
            call.body = await self._body(request, self._decoder)
        elif isinstance(endpoint.body, Media):
            _check_media(request, endpoint.body)
        found = await endpoint.handler(call)
        if isinstance(found, web.StreamResponse):
            return found
        answer = endpoint.answers[0]
        headers = {"Location": call.location} if call.location else {}
        if answer.body is None:
            return web.Response(status=answer.status, headers=headers)
        return json_answer(found, status=answer.status, headers=headers)

    def _check_needs(self, call: Call[Any, Any]) -> None:
        vhost = getattr(call.query, "vhost", "")
        log = call.part(LOG_PART) if self._names_log else ""
        viewer: Viewer = call
        self._endpoint.needs.check(viewer, vhost, log)

    def _query(self, request: web.Request) -> msgspec.Struct:
        """The parameters as they are declared; raises `Refused`."""
        if self._without_parameters is not None and not request.query_string:
            return self._without_parameters
        lists: dict[str, list[str]] = {}
        given: dict[str, object] = {}
        for name, value in request.query.items():
            if name in self._lists:
                given[name] = lists.setdefault(name, [])
                lists[name].append(value)
            elif name in given:
                raise BAD_REQUEST.refused(f"the parameter {name!r:.100} is given twice; give it once")
            else:
                given[name] = value
        try:
            query: msgspec.Struct = msgspec.convert(given, self._endpoint.query, strict=False)
        except msgspec.ValidationError as error:
            raise BAD_REQUEST.refused(f"the parameters are not what is expected here: {error}") from error
        return query

    async def _body(self, request: web.Request, decoder: msgspec.json.Decoder[Any]) -> object:
        body = await read_body(request, self._endpoint.body_bytes_max)
        if body and request.content_type not in self._media_types:
            taken = " or ".join(sorted(self._media_types))
            raise NOT_JSON.refused(f"a body is taken as {taken}; say so in Content-Type")
        try:
            return _decoded(body or b"{}", decoder)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BAD_REQUEST.refused(f"the body is not what is expected here: {error}") from error


def _check_media(request: web.Request, media: Media) -> None:
    if ANY_TYPE not in media.schemas and request.content_type not in media.schemas:
        taken = " or ".join(media.schemas)
        raise NOT_JSON.refused(f"a body is taken as {taken}; say so in Content-Type")


def _decoded(body: bytes, decoder: msgspec.json.Decoder[Any]) -> object:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        # To JSON Schema 1.0 is a whole number, to the decoder it is none.
        return msgspec.convert(_LOOSE.decode(body), decoder.type)


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


_LOOSE = msgspec.json.Decoder(float_hook=_number)


def peer_address(request: web.Request) -> str:
    """Where a request comes from, as host and port."""
    peer = None if request.transport is None else request.transport.get_extra_info("peername")
    return address_of(peer[0], peer[1]) if isinstance(peer, tuple) else request.remote or ""


def _check_path(request: web.Request) -> None:
    # What does not decode stays as it is in the parts of the path, and would name something else.
    raw = request.rel_url.raw_path
    if "%" in raw:
        try:
            unquote_to_bytes(raw).decode()
        except UnicodeDecodeError as error:
            raise BAD_REQUEST.refused("the path is not UTF-8; encode names as UTF-8, then as %XX") from error
