"""`python -m bench.http.empty`: a server of the same library whose only handler does nothing, the yardstick."""

from __future__ import annotations

import asyncio

import uvloop
from aiohttp import web

__all__ = ["main"]


async def _answer(_request: web.Request) -> web.Response:
    return web.Response()


async def _serve() -> None:
    application = web.Application()
    application.router.add_post("/logs/{log}/events", _answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"listening http {host}:{port}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve until it is killed."""
    uvloop.run(_serve())


if __name__ == "__main__":
    main()
