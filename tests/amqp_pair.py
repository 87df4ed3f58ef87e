"""Two ends of an AMQP connection in one process, with bytes carried between them as a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headwater.amqp.connection import Connection, Limits
from headwater.amqp.events import Closed, Event, LinkAttached, Opened
from headwater.amqp.link import Link
from headwater.amqp.messaging import Source, Target
from headwater.amqp.performatives import Performative
from headwater.amqp.receiver_link import ReceiverLink
from headwater.amqp.sender_link import SenderLink
from headwater.amqp.session import Session

__all__ = ["Pair", "only"]

Wanted = TypeVar("Wanted")


def only(events: Sequence[object], kind: type[Wanted]) -> Wanted:
    """The one event of a kind."""
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


class Pair:
    """A client and a server; the server opens by itself, all else is the test's to do."""

    def __init__(self, client: Limits | None = None, server: Limits | None = None) -> None:
        self.client = Connection("client", client)
        self.server = Connection("server", server)
        self.on_event: Callable[[Event], None] = lambda _event: None
        """Hears of each event while what it tells of is still in its buffer."""

    def open(self) -> Pair:
        """Open both ends."""
        self.client.send_header()
        self.client.open()
        self.exchange()
        return self

    def exchange(self, step_bytes: int = 1 << 30) -> list[Event]:
        """Carry bytes both ways, in pieces, until there are none left; gives what both ends told of."""
        events: list[Event] = []
        while True:
            to_server, to_client = self.client.data_to_send(), self.server.data_to_send()
            if not to_server and not to_client:
                return events
            events += self._carry(self.server, to_server, step_bytes)
            events += self._carry(self.client, to_client, step_bytes)

    def to_server(self, *frames: tuple[int, Performative, bytes]) -> list[Event]:
        """Carry frames that a client of this engine would not send."""
        for channel, performative, payload in frames:
            self.client.write(channel, performative, payload)
        return self.exchange()

    def session(self) -> tuple[Session, Session]:
        """A session, at both ends."""
        ours = self.client.begin()
        self.exchange()
        return ours, self.server.sessions[max(self.server.sessions)]

    def sender(self, session: Session, name: str = "up", **fields: object) -> tuple[SenderLink, ReceiverLink]:
        """A link on which the client sends, at both ends."""
        link = SenderLink(session, name)
        link.attach(Source(), Target("log"), **fields)  # type: ignore[arg-type]
        attached = self._accepted()
        assert isinstance(attached, ReceiverLink)
        return link, attached

    def receiver(
        self, session: Session, name: str = "down", **fields: object
    ) -> tuple[ReceiverLink, SenderLink]:
        """A link on which the server sends, at both ends."""
        link = ReceiverLink(session, name)
        link.attach(Source("log"), Target(), **fields)  # type: ignore[arg-type]
        attached = self._accepted()
        assert isinstance(attached, SenderLink)
        return link, attached

    def _accepted(self) -> Link:
        link = only(self.exchange(), LinkAttached).link
        assert isinstance(link.remote.source, Source)
        assert isinstance(link.remote.target, Target)
        link.accept(link.remote.source, link.remote.target)
        assert only(self.exchange(), LinkAttached).link.is_attached
        return link

    def _carry(self, to: Connection, data: bytearray, step_bytes: int) -> list[Event]:
        events: list[Event] = []
        kept = bytearray()
        for start in range(0, len(data), step_bytes):
            kept += data[start : start + step_bytes]
            position = 0
            while True:
                event, position = to.next_event(kept, position, len(kept))
                if event is None:
                    break
                if isinstance(event, Opened) and to is self.server:
                    to.open()
                if isinstance(event, Closed) and not event.is_answered:
                    to.close()
                self.on_event(event)
                events.append(event)
            del kept[:position]
        assert not kept, "all that is sent is whole"
        return events
