"""What answers of the HTTP door have in common: JSON, refusals in one shape, and bodies that end at a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

__all__ = ["Refused", "json_answer", "read_body", "read_json"]

BODY_TIMEOUT_S = 10.0
JSON_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-store"}

_T = TypeVar("_T")


class Refused(Exception):
    """A request that is answered with an error; `error` is a word for programs, `reason` a sentence for people."""

    def __init__(
        self, status: int, error: str, reason: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(reason)
        self.status, self.error, self.reason = status, error, reason
        self.headers = dict(headers or {})

    def answer(self) -> web.Response:
        """The answer that says so."""
        body = {"error": self.error, "reason": self.reason}
        return json_answer(body, status=self.status, headers=self.headers)


def json_answer(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An answer of JSON that nobody keeps."""
    all_headers = {**JSON_HEADERS, **headers} if headers else JSON_HEADERS
    return web.Response(body=msgspec.json.encode(value), status=status, headers=all_headers)


async def read_json(
    request: web.Request, kind: type[_T], bytes_max: int, timeout_s: float = BODY_TIMEOUT_S
) -> _T:
    """The body as a value of this type, an empty one as an object without fields; raises `Refused`."""
    body = await read_body(request, bytes_max, timeout_s)
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "bad_request", f"the body is not what is expected here: {error}") from error


async def read_body(request: web.Request, bytes_max: int, timeout_s: float = BODY_TIMEOUT_S) -> bytes:
    """The body as it is; raises `Refused` for one that is too large, or does not end in time."""
    if request.content.is_eof() and request.content.total_bytes <= bytes_max:
        return request.content.read_nowait()  # all of it came with the headers, as most do
    try:
        async with asyncio.timeout(timeout_s):
            return await _read(request, bytes_max)
    except TimeoutError as error:
        raise Refused(408, "request_timeout", f"the body did not end within {timeout_s:g} s") from error


async def _read(request: web.Request, bytes_max: int) -> bytes:
    body = bytearray()
    if (request.content_length or 0) <= bytes_max:
        async for part in request.content.iter_any():
            body += part
            if len(body) > bytes_max:
                break
        else:
            return bytes(body)
    raise Refused(413, "payload_too_large", f"a body of this request has at most {bytes_max} bytes")
