"""A small node on Qpid Proton, for our own client to talk to: queues in memory, and addresses that say no."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from types import TracebackType
from typing import Any

from proton import Condition, Event, Message, Sender
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

__all__ = ["ProtonNode"]

START_TIMEOUT_S = 10.0
CREDIT = 50
REFUSED = "refused"
REJECTING = "rejecting"
RELEASING = "releasing"


class ProtonNode(MessagingHandler):
    """Runs on a thread while it is used as a context manager."""

    def __init__(self) -> None:
        super().__init__(prefetch=CREDIT, auto_accept=False)
        self.port = 0
        self.settled: list[str] = []
        """What became of what it delivered, by the names of the outcomes."""
        self.instructions: list[dict[Any, Any] | None] = []
        """The delivery annotations of what it was sent, which end here."""
        self._messages: defaultdict[str | None, deque[Message]] = defaultdict(deque)
        self._links: defaultdict[str | None, list[Sender]] = defaultdict(list)
        self._injector = EventInjector()
        self._container: Container
        self._acceptor: Any
        self._is_listening = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ProtonNode:
        self._thread.start()
        assert self._is_listening.wait(START_TIMEOUT_S), "the node does not listen"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._injector.trigger(ApplicationEvent("end"))
        self._thread.join(START_TIMEOUT_S)

    def on_start(self, event: Event) -> None:
        self._container = event.container
        self._acceptor = self._container.listen("127.0.0.1:0")
        self._container.selectable(self._injector)
        self.port = self._acceptor._selectable._delegate.getsockname()[1]
        self._is_listening.set()

    def on_end(self, event: Event) -> None:
        self._acceptor.close()
        self._container.stop()

    def on_link_opening(self, event: Event) -> None:
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if isinstance(link, Sender) and link.remote_source.dynamic:
            link.source.address = f"temporary-{link.name}"
        if REFUSED in (link.remote_source.address, link.remote_target.address):
            link.source.type = link.target.type = 0  # unspecified, which goes out as null
        elif isinstance(link, Sender):
            self._links[link.source.address].append(link)

    def on_link_opened(self, event: Event) -> None:
        link = event.link
        if REFUSED in (link.remote_source.address, link.remote_target.address):
            link.condition = Condition("amqp:not-found", "there is nothing here")
            link.close()

    def on_sendable(self, event: Event) -> None:
        self._dispatch(event.link.source.address)
        if event.link.drain_mode:
            event.link.drained()

    def on_message(self, event: Event) -> None:
        address = event.link.target.address
        if address == REJECTING:
            event.delivery.local.condition = Condition("example:too-late", "nobody wants it")
            self.reject(event.delivery)
        elif address == RELEASING:
            self.release(event.delivery, delivered=False)
        else:
            self.accept(event.delivery)
            to = address or event.message.address
            self.instructions.append(event.message.instructions)
            event.message.instructions = None
            self._messages[to].append(event.message)
            self._dispatch(to)

    def on_accepted(self, event: Event) -> None:
        self.settled.append("accepted")

    def on_rejected(self, event: Event) -> None:
        self.settled.append("rejected")

    def on_released(self, event: Event) -> None:
        self.settled.append("released")

    def on_modified(self, event: Event) -> None:
        self.settled.append("modified")

    def _dispatch(self, address: str | None) -> None:
        messages = self._messages[address]
        for link in self._links[address]:
            while messages and link.credit:
                message = messages.popleft()
                if message.properties and message.properties.get("operation"):
                    self._answer(message)
                else:
                    link.send(message)

    def _answer(self, request: Message) -> None:
        answer = Message(
            address=request.reply_to,
            correlation_id=request.id,
            properties={"statusCode": 200},
            body=f"{request.properties['operation']} done",
        )
        self._messages[request.reply_to].append(answer)
        self._dispatch(request.reply_to)

    def _run(self) -> None:
        Container(self).run()
