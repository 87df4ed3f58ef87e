"""The HTTP door as commands call it: one request after the other, JSON both ways, problems as errors."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from headwater.client.address import Address, Credentials
from headwater.client.errors import ConnectionLost, HttpRefused, PeerUnreachable

__all__ = ["HttpApi", "path_of"]

TIMEOUT_S = 60.0
ANSWER_BYTES_MAX = 64 << 20
PAGE_ITEMS = 1000
TYPE_PREFIX = "urn:headwater:problem:"


def path_of(*parts: str) -> str:
    """A path, each part encoded."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


class HttpApi:
    """One server, with a connection for each request: commands have few."""

    def __init__(self, address: Address, credentials: Credentials | None) -> None:
        """Without credentials the client certificate of the address says who asks."""
        self._address = address
        self._headers = {"Accept": "application/json"}
        if credentials is not None:
            login = f"{credentials.user}:{credentials.password}".encode("utf-8", "surrogateescape")
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        if address.tls is None:
            self._connection = http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT_S)
        else:
            self._connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=TIMEOUT_S, context=address.tls
            )

    def ask(
        self, method: str, path: str, body: object = None, parameters: Mapping[str, str] | None = None
    ) -> Any:  # noqa: ANN401 - whatever the JSON holds
        """What is answered; raises `HttpRefused`, `PeerUnreachable`, `ConnectionLost`."""
        headers = dict(self._headers)
        data = None
        if body is not None:
            data = json.dumps(body).encode("utf-8", "surrogateescape")
            headers["Content-Type"] = "application/json"
        if parameters:
            path = f"{path}?{urlencode(parameters)}"
        self._connect()
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            content = answer.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLost(str(self._address), str(error) or type(error).__name__) from error
        finally:
            self._connection.close()
        return _read(answer.status, content, str(self._address))

    def pages(self, path: str, name: str, parameters: Mapping[str, str] | None = None) -> Iterator[Any]:
        """The items of a list, page by page, as many as there are."""
        after: str | None = ""
        while after is not None:
            wanted = {**(parameters or {}), "limit": str(PAGE_ITEMS), "after": after}
            page = self.ask("GET", path, parameters=wanted)
            yield from page[name]
            after = page["next"]

    def _connect(self) -> None:
        try:
            self._connection.connect()
        except OSError as error:
            self._connection.close()
            raise PeerUnreachable(str(self._address), str(error)) from error


def _read(status: int, content: bytes, address: str) -> Any:  # noqa: ANN401 - whatever the JSON holds
    try:
        found = json.loads(content) if content else None
    except ValueError as error:
        raise ConnectionLost(address, "what it answered is no JSON, so it is no Headwater") from error
    if 200 <= status < 300:
        return found
    told = found if isinstance(found, dict) else {}
    detail = told.get("detail") or told.get("reason") or f"status {status}"
    raise HttpRefused(status, str(told.get("type", "")).removeprefix(TYPE_PREFIX), str(detail))
