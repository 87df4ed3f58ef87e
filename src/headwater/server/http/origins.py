"""Pages of other origins: a browser lets each of them ask anything of any server, in the name of whoever looks at it.

It says in `Origin` whose page it is. A page of this server's own origin may ask, and none of anybody else.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from aiohttp import web

from headwater.server.security.identity import is_loopback

__all__ = ["is_of_own_origin"]

LOCAL_NAME = "localhost"


def is_of_own_origin(origin: str, request: web.Request) -> bool:
    """Whether a page of this origin came from where the request goes to."""
    if origin.partition("://")[2] != request.host:
        return False
    # A name of somebody else that leads to this machine makes its pages look like ours.
    return not is_loopback(request.remote or "") or _is_local(request.host)


def _is_local(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return bool(name) and (name == LOCAL_NAME or is_loopback(str(name)))
