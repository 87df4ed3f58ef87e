"""The part of the demo in which events come by curl: read by stream and AMQP 1.0 clients, and what these send back."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.amqp.messaging import Source
from headwater.client.address import Address
from headwater.client.amqp_connection import AmqpConnection
from headwater.client.amqp_receiver import AmqpReceiver, from_offset
from headwater.client.amqp_sender import AmqpSender
from headwater.client.stream_connection import StreamConnection
from headwater.client.stream_consumer import StreamConsumer, at_offset
from headwater.client.stream_publisher import StreamPublisher
from headwater.cloudevents import amqp_binding
from headwater.cloudevents.event import CloudEvent, new_event

__all__ = ["EVENTS", "Curl", "NoCurl", "Reader", "answer_over_amqp_and_streams", "read_at_all_doors"]

EVENTS = "refunds"
TIMEOUT_S = 30
_ATTRIBUTES = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/till/3",
    "ce-type": "com.example.refund",
    "content-type": "application/json",
}
_DATA = '{"order": 17, "amount": "12.50"}'


class NoCurl(Exception):
    """There is no curl on this machine."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who has read the event, and what it was told."""

    client: str
    event: str


class Curl:
    """Events in and out with nothing but curl."""

    def __init__(self, http_port: int) -> None:
        found = shutil.which("curl")
        if found is None:
            raise NoCurl
        self._program = found
        self._address = f"http://127.0.0.1:{http_port}/logs/{EVENTS}/events"

    @property
    def posting(self) -> str:
        """The command line that posts an event, as somebody would type it."""
        headers = " ".join(f"-H '{name}: {value}'" for name, value in _ATTRIBUTES.items())
        return f"curl -u guest:guest {self._address} {headers} -d '{_DATA}'"

    def post(self) -> str:
        """Post the event; gives the answer."""
        headers = [part for name, value in _ATTRIBUTES.items() for part in ("-H", f"{name}: {value}")]
        return self._run(self._address, *headers, "-d", _DATA)

    def read(self) -> list[str]:
        """All events, each as JSON."""
        accept = "accept: application/cloudevents-batch+json"
        return [json.dumps(each) for each in json.loads(self._run(self._address, "-H", accept))]

    def _run(self, *arguments: str) -> str:
        command = [self._program, "-sS", "--fail-with-body", "-u", "guest:guest", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S).stdout


async def read_at_all_doors(stream_port: int, amqp_port: int) -> Sequence[Reader]:
    """The event as a stream client and an AMQP client get it."""
    async with await StreamConnection.connect(Address(port=stream_port)) as streams:
        chunk = await (await StreamConsumer.open(streams, EVENTS, at_offset(0))).next_chunk()
        assert chunk is not None, "nobody closes it"
        ((_, record),) = chunk.messages()
    async with await AmqpConnection.connect(Address(port=amqp_port)) as amqp:
        receiver = await AmqpReceiver.open(amqp, Source(EVENTS, filter=dict(from_offset("first"))))
        received = await receiver.receive()
        assert received is not None, "nobody closes it"
        receiver.accept(received)
    return [
        Reader("a stream client", _told(bytes(record))),
        Reader("an AMQP 1.0 client", _told(received.data)),
    ]


async def answer_over_amqp_and_streams(stream_port: int, amqp_port: int) -> None:
    """Each of them sends an event of its own."""
    async with await StreamConnection.connect(Address(port=stream_port)) as streams:
        publisher = await StreamPublisher.open(streams, EVENTS)
        await publisher.publish([amqp_binding.encode(_answer("2", "/streams/bookkeeping"))])
        await publisher.close()
    async with await AmqpConnection.connect(Address(port=amqp_port)) as amqp:
        sender = await AmqpSender.open(amqp, EVENTS)
        await sender.send(amqp_binding.encode(_answer("3", "/amqp/warehouse")))
        await sender.close()


def _answer(id_: str, source: str) -> CloudEvent:
    return new_event(
        id_, source, "com.example.refund.seen", b'{"order": 17}', datacontenttype="application/json"
    )


def _told(message: bytes) -> str:
    event = amqp_binding.decode(message, 0, len(message))
    return f"{event.type} from {event.source}: {(event.data or b'').decode()}"
