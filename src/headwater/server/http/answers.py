"""What answers of the HTTP door have in common: JSON, refusals in one shape, and bodies that end at a bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

__all__ = ["Refused", "json_answer", "read_json"]

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
    return web.Response(
        body=msgspec.json.encode(value),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


async def read_json(request: web.Request, kind: type[_T], bytes_max: int) -> _T:
    """The body as a value of this type, an empty one as an object without fields; raises `Refused`."""
    too_large = Refused(413, "payload_too_large", f"a body of this request has at most {bytes_max} bytes")
    if (request.content_length or 0) > bytes_max:
        raise too_large
    body = bytearray()
    async for part in request.content.iter_any():
        body += part
        if len(body) > bytes_max:
            raise too_large
    try:
        return msgspec.json.decode(bytes(body) or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "bad_request", f"the body is not what is expected here: {error}") from error
