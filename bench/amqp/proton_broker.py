"""`python -m bench.amqp.proton_broker PORT`: a broker as one writes it on Qpid Proton, as a yardstick.

Queues in memory, one thread, a callback for each message; nothing is stored.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque

from proton import Event, Link, Message, Sender
from proton.handlers import MessagingHandler
from proton.reactor import Container

__all__ = ["Broker"]

CREDIT = 1000


class Broker(MessagingHandler):
    """Accepts every message, and hands it to whoever receives from its address."""

    def __init__(self, port: int) -> None:
        super().__init__(prefetch=CREDIT)
        self._port = port
        self._messages: defaultdict[str | None, deque[Message]] = defaultdict(deque)
        self._links: defaultdict[str | None, list[Sender]] = defaultdict(list)

    def on_start(self, event: Event) -> None:
        event.container.listen(f"127.0.0.1:{self._port}")

    def on_link_opening(self, event: Event) -> None:
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if isinstance(link, Sender):
            self._links[link.source.address].append(link)

    def on_sendable(self, event: Event) -> None:
        self._dispatch(event.link.source.address)

    def on_message(self, event: Event) -> None:
        address = event.link.target.address
        self._messages[address].append(event.message)
        self._dispatch(address)

    def on_link_closing(self, event: Event) -> None:
        self._forget(event.link)

    def on_disconnected(self, event: Event) -> None:
        link = event.connection.link_head(0)
        while link is not None:
            self._forget(link)
            link = link.next(0)

    def _dispatch(self, address: str | None) -> None:
        messages = self._messages[address]
        for link in self._links[address]:
            while messages and link.credit:
                link.send(messages.popleft())

    def _forget(self, link: Link) -> None:
        links = self._links[link.source.address]
        if isinstance(link, Sender) and link in links:
            links.remove(link)


if __name__ == "__main__":
    Container(Broker(int(sys.argv[1]))).run()
