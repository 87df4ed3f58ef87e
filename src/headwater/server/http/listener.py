"""The HTTP door's socket: it binds, says where, and lets requests under way end when it closes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from headwater.server.listening import ListenFailed, address_of

__all__ = ["HttpListener"]


class HttpListener:
    """Serves one aiohttp application on one host and port."""

    def __init__(
        self,
        application: web.Application,
        stop_timeout_s: float,
        end_websockets: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._end_websockets = end_websockets
        self._runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=stop_timeout_s
        )

    async def open(self, host: str, port: int) -> list[str]:
        """Bind and serve; gives the addresses as `host:port`, of which there are several when a name has several."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except (OSError, UnicodeError) as error:
            await self._runner.cleanup()
            raise ListenFailed("http", host, port, error) from error
        return [address_of(address[0], address[1]) for address in self._runner.addresses]

    async def close(self) -> None:
        """Take no more connections, end WebSockets, wait for requests under way, and close."""
        for site in list(self._runner.sites):
            await site.stop()
        if self._end_websockets is not None:
            # Now, since aiohttp hands nothing on to them from the next step on.
            await self._end_websockets()
        await self._runner.cleanup()
