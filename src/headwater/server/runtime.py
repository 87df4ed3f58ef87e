"""The server's life: it opens the data folder and the doors, serves, and on SIGTERM stops without losing anything."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import ssl
import sys
import time
from collections.abc import Iterable

import uvloop

from headwater import __version__
from headwater.errors import HeadwaterError
from headwater.log.partition import PartitionState
from headwater.log.store import Store
from headwater.server.amqp.clients import amqp_clients
from headwater.server.amqp.door import Door as AmqpDoor
from headwater.server.amqp.door import make_amqp_door, make_nodes
from headwater.server.amqp.listener import AmqpListener
from headwater.server.amqp.listener import close_connections as close_amqp_connections
from headwater.server.amqp.management.agent import Agent
from headwater.server.amqp.management.connections import ConnectionType
from headwater.server.amqp.management.consumers import GroupType, SubscriptionType
from headwater.server.amqp.management.logs import LogType
from headwater.server.amqp.receivers import amqp_receivers
from headwater.server.catalogue import Catalogue
from headwater.server.config import Settings
from headwater.server.consumers.consumers import Consumers
from headwater.server.consumers.log_events import follow_logs
from headwater.server.doors_file import forget_doors, write_doors
from headwater.server.health import DataHealth, Health, ServerState
from headwater.server.http.application import EndpointGroup, make_application
from headwater.server.http.authentication import BasicAuthentication
from headwater.server.http.connections import ConnectionEndpoints
from headwater.server.http.events.endpoints import EventEndpoints
from headwater.server.http.groups import GroupEndpoints
from headwater.server.http.listener import HttpLimits, HttpListener
from headwater.server.http.logs import LogEndpoints
from headwater.server.http.management.application import PREFIX, make_management
from headwater.server.http.management.call import Management
from headwater.server.http.management.node import Node
from headwater.server.http.metrics import MetricsEndpoints
from headwater.server.http.serving import HttpFigures, Serving
from headwater.server.http.subscriptions import SubscriptionEndpoints
from headwater.server.http.users import UserEndpoints
from headwater.server.http.websocket import AmqpOverWebSocket
from headwater.server.logging import configure
from headwater.server.management.clients import Clients
from headwater.server.management.groups import ManagedGroups
from headwater.server.management.receivers import LiveReceiver
from headwater.server.management.subscriptions import ManagedSubscriptions
from headwater.server.metrics import Measured, metrics_text
from headwater.server.security.access import Access
from headwater.server.security.authenticator import Authenticator
from headwater.server.security.passwords import PasswordChecker
from headwater.server.security.sasl import Sasl
from headwater.server.security.users import first_user
from headwater.server.streams.clients import stream_clients
from headwater.server.streams.door import Door, Endpoint
from headwater.server.streams.limits import Limits
from headwater.server.streams.listener import StreamListener, close_connections
from headwater.server.tls import ServerTls

__all__ = ["Server", "run"]

SWITCH_INTERVAL_S = 0.0005
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("headwater.server")


def run(settings: Settings) -> int:
    """Serve until a signal asks to stop; gives the exit code of the process."""
    configure(settings.log_format, settings.log_level)
    _prepare_process()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except HeadwaterError as error:
        logger.error("%s", error)
        return 1
    return 0


class Server:
    """One data folder and its doors, from start to stop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._started_at = time.monotonic()
        self._is_stopping = False
        self._store: Store | None = None
        self._catalogue: Catalogue | None = None
        self._passwords: PasswordChecker | None = None
        self._clients = Clients()
        self._streams: Door | None = None
        self._authenticator: Authenticator
        self._authentication: BasicAuthentication
        self._access: Access
        self._sasl: Sasl
        self._tls: ServerTls | None = None
        self._stream_listeners: list[StreamListener] = []
        self._amqp: AmqpDoor | None = None
        self._consumers: Consumers | None = None
        self._amqp_listeners: list[AmqpListener] = []
        self._retention: asyncio.Task[None] | None = None
        self._http: HttpListener | None = None
        self._listening: list[tuple[str, str, int]] = []

    @property
    def state(self) -> ServerState:
        """What clients may expect at this moment."""
        if self._is_stopping:
            return ServerState.STOPPING
        if self._store is None:
            return ServerState.STARTING
        return ServerState.DEGRADED if self._store.is_degraded else ServerState.READY

    def health(self) -> Health:
        """The server's state and figures for `GET /health`."""
        return Health(
            state=self.state,
            version=__version__,
            uptime_s=round(time.monotonic() - self._started_at, 3),
            data=None if self._store is None else _figures(self._store),
        )

    async def start(self) -> None:
        """Open the data folder, then the doors; whoever finds a door open finds the logs behind it."""
        self._store = Store.open(self._settings.data, loop=asyncio.get_running_loop())
        logger.info(
            "opened %s logs=%d partitions=%d",
            self._settings.data,
            len(self._store.logs),
            self._store.partition_count,
        )
        for notice in self._store.notices:
            logger.warning("%s", notice)
        for damage in self._store.damaged:
            logger.error("damaged: %s; see `headwater check`", damage)
        self._open_catalogue()
        await self._open_streams(self._store)
        await self._open_amqp(self._store)
        self._retention = asyncio.create_task(self._keep_retention(self._store))
        await self._open_http()

    def reload(self) -> None:
        """Read the files of certificates again, for connections that are still to come."""
        if self._tls is None:
            logger.info("nothing to read again: tls_certificate_file is not set")
            return
        try:
            self._tls.reload()
        except HeadwaterError as error:
            logger.error("the certificates stay as they were: %s", error)
        else:
            logger.info("read the certificates again")

    async def stop(self) -> None:
        """Close the doors, then flush and release the data folder; whatever was opened is closed."""
        self._is_stopping = True
        if self._store is not None:
            forget_doors(self._settings.data)
        if self._retention is not None:
            self._retention.cancel()
            await asyncio.wait([self._retention])
        if self._http is not None:
            await self._http.close()
        for listener in self._stream_listeners:
            listener.close()
        for amqp_listener in self._amqp_listeners:
            amqp_listener.close()
        if self._streams is not None:
            await close_connections(self._streams)
        if self._amqp is not None:
            await close_amqp_connections(self._amqp)
        if self._consumers is not None:
            self._consumers.close()
        if self._passwords is not None:
            self._passwords.close()
        if self._catalogue is not None:
            self._catalogue.close()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _open_catalogue(self) -> None:
        """Who may come in, and how they prove it."""
        settings = self._settings
        self._catalogue = catalogue = Catalogue.open(
            settings.data,
            iterations=settings.scram_iterations,
            first_user=lambda: first_user(settings.admin_user, settings.admin_password_file),
        )
        self._passwords = passwords = PasswordChecker(
            remembered_max=settings.password_cache_entries_max, remembered_s=settings.password_cache_s
        )
        self._authenticator = authenticator = Authenticator(catalogue, passwords)
        self._access = Access(catalogue)
        self._sasl = Sasl(
            authenticator,
            allows_anonymous=settings.sasl_anonymous,
            allows_plain_without_tls=settings.sasl_plain_without_tls,
        )
        self._authentication = BasicAuthentication(authenticator, self._sasl, settings.sasl_failure_delay_s)
        if settings.tls_certificate_file is not None:
            self._tls = ServerTls(
                settings.tls_certificate_file, settings.tls_key_file, settings.tls_client_ca_file
            )

    async def _open_streams(self, store: Store) -> None:
        settings = self._settings
        limits = Limits(
            connections_max=settings.stream_connections_max,
            frame_size_bytes_max=settings.stream_frame_bytes_max,
            heartbeat_s=settings.stream_heartbeat_s,
            step_timeout_s=settings.stream_handshake_timeout_s,
            failure_delay_s=settings.sasl_failure_delay_s,
        )
        loop = asyncio.get_running_loop()
        door = Door(store, self._access, self._sasl, loop, limits, settings.stream_announced_version)
        self._streams = door
        self._clients.add_door(lambda: stream_clients(door), limits.connections_max)
        await self._listen_for_streams(
            settings.stream_port, settings.stream_advertised_host, settings.stream_advertised_port
        )
        if self._tls is not None:
            await self._listen_for_streams(
                settings.stream_tls_port,
                settings.stream_tls_advertised_host,
                settings.stream_tls_advertised_port,
                self._tls.context,
            )

    async def _open_amqp(self, store: Store) -> None:
        settings = self._settings
        assert self._streams is not None, "the doors are opened in their order"
        loop = asyncio.get_running_loop()
        self._consumers = consumers = Consumers(store, loop, settings.cursor_flush_ms / 1000)
        agent = Agent(
            [
                LogType(store, self._streams.delete_log),
                ConnectionType(self._clients, loop),
                GroupType(ManagedGroups(store, consumers)),
                SubscriptionType(ManagedSubscriptions(store, consumers, self._receivers)),
            ]
        )
        follow_logs(store, consumers)
        door = make_amqp_door(store, self._access, self._sasl, loop, settings, consumers, agent)
        self._amqp = door
        self._clients.add_door(lambda: amqp_clients(door), door.limits.connections_max)
        ports: list[tuple[int, ssl.SSLContext | None]] = [(settings.amqp_port, None)]
        if self._tls is not None:
            ports.append((settings.amqp_tls_port, self._tls.context))
        for port, tls in ports:
            listener = AmqpListener(door, tls)
            self._amqp_listeners.append(listener)
            for address in await listener.open(settings.host, port):
                self._note_listener("amqp" if tls is None else "amqp/ssl", address)
                logger.info("listening %s %s", "amqp" if tls is None else "amqp-tls", address)

    def _receivers(self, connection: str | None = None) -> Iterable[LiveReceiver]:
        return () if self._amqp is None else amqp_receivers(self._amqp, connection)

    async def _listen_for_streams(
        self,
        port: int,
        advertised_host: str | None,
        advertised_port: int | None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        assert self._streams is not None
        listener = StreamListener(self._streams, Endpoint(advertised_host or "", advertised_port or 0), tls)
        self._stream_listeners.append(listener)
        kind = "streams" if tls is None else "streams-tls"
        told = f"{advertised_host or 'the host'}:{advertised_port or 'the port'} that they reached"
        if advertised_host and advertised_port:
            told = f"{advertised_host}:{advertised_port}"
        for address in await listener.open(self._settings.host, port):
            self._note_listener("stream" if tls is None else "stream/ssl", address)
            logger.info("listening %s %s advertised to clients: %s", kind, address, told)

    async def _open_http(self) -> None:
        settings, door, catalogue = self._settings, self._streams, self._catalogue
        assert door is not None, "the doors are opened in their order"
        assert catalogue is not None, "the catalogue is opened before the doors"
        node = Node(
            settings.stream_advertised_host or settings.host,
            settings.data,
            settings.stream_announced_version,
            self._started_at,
            self._listening,
        )
        management = make_management(Management(door, self._clients, catalogue, node), self._authentication)
        assert self._amqp is not None, "the doors are opened in their order"
        assert self._consumers is not None, "the doors are opened in their order"
        amqp = AmqpOverWebSocket(self._amqp, settings.amqp_websocket_origin)
        figures = HttpFigures()
        nodes = make_nodes(door.store, self._access, settings, "http")
        events = EventEndpoints(
            nodes, settings.http_default_log, settings.http_event_bytes_max, settings.http_event_heartbeat_s
        )
        groups: list[EndpointGroup] = [
            events,  # asked for most, so found first
            LogEndpoints(door.store, door.delete_log),
            UserEndpoints(catalogue),
            ConnectionEndpoints(self._clients),
            MetricsEndpoints(self._metrics),
            GroupEndpoints(ManagedGroups(door.store, self._consumers)),
            SubscriptionEndpoints(ManagedSubscriptions(door.store, self._consumers, self._receivers)),
        ]
        serving = Serving(self._access, self._authentication, figures)
        application = make_application(serving, self.health, groups, {PREFIX: management}, amqp)
        application.on_shutdown.append(events.end)
        limits = HttpLimits(
            settings.http_connections_max,
            settings.http_header_bytes_max,
            settings.http_idle_timeout_s,
            settings.http_stop_timeout_s,
        )
        self._http = HttpListener(application, limits, figures, amqp.end)
        await self._listen_for_http(self._http)

    async def _metrics(self) -> bytes:
        assert self._store is not None
        assert self._consumers is not None
        assert self._streams is not None
        assert self._amqp is not None
        assert self._http is not None, "who asks came by it"
        return await metrics_text(
            Measured(self._store, self._consumers, self._streams, self._amqp, self._http, self._authenticator)
        )

    async def _listen_for_http(self, listener: HttpListener) -> None:
        settings = self._settings
        ports: list[tuple[str, int, ssl.SSLContext | None]] = [("http", settings.http_port, None)]
        if self._tls is not None:
            # The plain port is the last: whoever finds it open finds all of the server behind it.
            ports.insert(0, ("http-tls", settings.http_tls_port, self._tls.context))
        for kind, port, tls in ports:
            addresses = await listener.open(settings.host, port, tls)
            if tls is None:
                host, _, bound = addresses[0].rpartition(":")
                write_doors(settings.data, host.strip("[]"), int(bound))
            for address in addresses:
                self._note_listener("http" if tls is None else "https", address)
                logger.info("listening %s %s", kind, address)

    def _note_listener(self, protocol: str, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._listening.append((protocol, host.strip("[]"), int(port)))

    async def _keep_retention(self, store: Store) -> None:
        while True:
            await asyncio.sleep(self._settings.retention_interval_s)
            try:
                for error in store.enforce_retention():
                    logger.warning("removing what expired failed, the next round tries again: %s", error)
            except Exception:  # whatever failed, events are still served
                logger.exception("removing what expired failed; the next round tries again")


async def _serve(settings: Settings) -> None:
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, _on_stop_signal, number, asked_to_stop)
    server = Server(settings)
    loop.add_signal_handler(signal.SIGHUP, _on_reload_signal, server)
    try:
        await server.start()
        gc.set_threshold(50_000, 20, 50)
        gc.freeze()  # what is alive now stays alive; collections need not look at it again
        await asked_to_stop.wait()
    finally:
        await server.stop()
        _ignore_stop_signals(loop)
    logger.info("stopped")


def _on_stop_signal(number: signal.Signals, asked_to_stop: asyncio.Event) -> None:
    if asked_to_stop.is_set():
        logger.info("%s again: already stopping", number.name)
        return
    logger.info("%s: stopping", number.name)
    asked_to_stop.set()


def _on_reload_signal(server: Server) -> None:
    logger.info("SIGHUP: reading what may have changed")
    server.reload()


def _ignore_stop_signals(loop: asyncio.AbstractEventLoop) -> None:
    # All is closed; an impatient second signal must not turn a clean end into a failed one.
    for number in (*STOP_SIGNALS, signal.SIGHUP):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _figures(store: Store) -> DataHealth:
    return DataHealth(
        logs=len(store.logs),
        partitions=store.partition_count,
        damaged_partitions=store.count_in(PartitionState.DAMAGED),
        read_only_partitions=store.count_in(PartitionState.READ_ONLY),
    )


def _prepare_process() -> None:
    # A commit thread must get the interpreter back quickly while the loop is busy.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
