"""Both ends talk to each other over pieces cut at random, and hear each other out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.streams import commands as c
from headwater.streams.client_connection import ClientConnection
from headwater.streams.codec import CLIENT_DECODERS, SERVER_DECODERS
from headwater.streams.commands import Command, OffsetSpecification, OffsetType, ResponseCode
from headwater.streams.connection import Connection, Event, Failed, State
from headwater.streams.publish import encode_publish
from headwater.streams.server_connection import SERVER_COMMANDS, ServerConnection

ROUNDS_MAX = 20_000


class Wire:
    """Bytes on their way to one end, which arrive in pieces."""

    def __init__(self, to: Connection) -> None:
        self.to = to
        self.on_the_way = b""
        self.kept = b""

    def pass_on(self, chance: random.Random) -> list[tuple[Event, bytes]]:
        """Events of the next piece, each with the bytes of its span."""
        size = chance.choice((1, 2, 3, 7, 40, 1000))
        piece, self.on_the_way = self.on_the_way[:size], self.on_the_way[size:]
        buffer = bytearray(b"others'" + self.kept + piece)
        consumed, events = self.to.receive(buffer, 7, len(buffer))
        self.kept = bytes(buffer[7 + consumed :])
        return [(event, _span(buffer, event)) for event in events]


def _span(buffer: bytearray, event: Event) -> bytes:
    if isinstance(event, c.Publish | c.PublishConfirm | c.Deliver):
        return bytes(buffer[event.start : event.end])
    return b""


REQUESTS: list[tuple[type[c.Request], tuple[object, ...]]] = [
    (c.DeclarePublisherRequest, (1, "ref", "s")),
    (c.QueryPublisherSequenceRequest, ("ref", "s")),
    (c.SubscribeRequest, (1, "s", OffsetSpecification(OffsetType.OFFSET, 7), 10, {"name": "n"})),
    (c.QueryOffsetRequest, ("ref", "s")),
    (c.MetadataRequest, (("s", "t"),)),
    (c.CreateRequest, ("s", {"max-age": "1D"})),
]
ANSWERS: dict[type[Command], type[Command]] = {
    c.DeclarePublisherRequest: c.DeclarePublisherResponse,
    c.QueryPublisherSequenceRequest: c.QueryPublisherSequenceResponse,
    c.SubscribeRequest: c.SubscribeResponse,
    c.QueryOffsetRequest: c.QueryOffsetResponse,
    c.CreateRequest: c.CreateResponse,
}


class Conversation:
    """A client that asks and publishes, and a server that answers each of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.server = ServerConnection({"version": "4.0.5"}, ["PLAIN"])
        self.client = ClientConnection({"product": "headwater"})
        self.to_server, self.to_client = Wire(self.server), Wire(self.client)
        self.asked: list[Command] = []
        self.answered: list[Command] = []
        self.confirmed = b""

    def run(self) -> None:
        for _ in range(ROUNDS_MAX):
            self.to_server.on_the_way += self.client.data_to_send()
            self.to_client.on_the_way += self.server.data_to_send()
            if self.chance.random() < 0.5:
                for event, span in self.to_server.pass_on(self.chance):
                    self.serve(event, span)
            else:
                for event, span in self.to_client.pass_on(self.chance):
                    self.use(event, span)
            if self.server.state is State.CLOSED and self.client.state is State.CLOSED:
                return
        raise AssertionError("the conversation did not end")

    def serve(self, event: Event, span: bytes) -> None:
        assert not isinstance(event, Failed), event
        if isinstance(event, c.SaslAuthenticateRequest):
            self.server.authenticated()
        elif isinstance(event, c.OpenRequest):
            self.server.opened({"advertised_host": "h", "advertised_port": "1"})
        elif isinstance(event, c.Publish):
            self.server.confirm(event.publisher_id, span[:8])
            self.server.send(c.Heartbeat())
        elif isinstance(event, c.MetadataRequest):
            self.asked.append(event)
            self.server.send(c.MetadataResponse(event.correlation_id, (), ()))
        elif type(event) in ANSWERS and isinstance(event, c.Request):
            self.asked.append(event)
            answer = ANSWERS[type(event)]
            self.server.send(answer(event.correlation_id, ResponseCode.OK))

    def use(self, event: Event, span: bytes) -> None:
        assert not isinstance(event, Failed), event
        if isinstance(event, c.SaslHandshakeResponse):
            self.client.authenticate("PLAIN", b"\0guest\0guest")
        elif isinstance(event, c.OpenResponse):
            for kind, fields in REQUESTS:
                self.client.send(kind(self.client.next_correlation_id(), *fields))
                self.client.send_frame(encode_publish(1, [(len(self.asked), b"x" * 3000)]))
        elif isinstance(event, c.PublishConfirm):
            self.confirmed += span
        elif isinstance(event, c.Response | c.MetadataResponse):
            self.answered.append(event)
        if len(self.confirmed) == 8 * len(REQUESTS) and not self.client.has_ended:
            self.client.close(ResponseCode.OK, "done")


@given(st.integers(0, 2**32))
def test_both_ends_understand_each_other_however_the_bytes_are_cut(seed: int) -> None:
    conversation = Conversation(seed)
    conversation.run()
    assert [type(request) for request in conversation.asked] == [kind for kind, _ in REQUESTS]
    numbers = [request.correlation_id for request in conversation.asked]  # type: ignore[attr-defined]
    answers = [
        answer for answer in conversation.answered if isinstance(answer, c.Response | c.MetadataResponse)
    ]
    assert [answer.correlation_id for answer in answers if answer.correlation_id in numbers] == numbers
    assert conversation.server.takes_committed_chunk_id
    assert conversation.client.server_commands == SERVER_COMMANDS


def made_by(kind: type[Connection]) -> Connection:
    return ServerConnection({}, ["PLAIN"]) if kind is ServerConnection else ClientConnection({})


def step(connection: Connection) -> None:
    """What a shell does that always says yes."""
    if connection.state is State.AUTHENTICATING and isinstance(connection, ServerConnection):
        connection.authenticated()
    elif connection.state is State.OPENING and isinstance(connection, ServerConnection):
        connection.opened({})
    elif connection.state is State.AUTHENTICATING and isinstance(connection, ClientConnection):
        connection.authenticate("PLAIN", b"")


STATES = [state for state in State if state not in Connection.waits]
FRAMES = st.builds(
    lambda size, key, version, fields: (
        (len(fields) + 4 if size is None else size).to_bytes(4, "big")
        + key.to_bytes(2, "big")
        + version.to_bytes(2, "big")
        + fields
    ),
    st.one_of(st.none(), st.none(), st.integers(0, 40), st.integers(0, 2**32 - 1)),
    st.sampled_from(sorted(CLIENT_DECODERS.keys() | SERVER_DECODERS.keys())) | st.integers(0, 2**16 - 1),
    st.sampled_from([1, 1, 1, 2, 0]),
    st.binary(max_size=30),
)


@pytest.mark.clause("SP-19")
@given(
    st.sampled_from([ServerConnection, ClientConnection]),
    st.sampled_from(STATES),
    st.lists(FRAMES | st.binary(max_size=20), max_size=8),
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
)
def test_any_bytes_in_any_state_are_taken_or_end_the_connection(
    kind: type[Connection], state: State, frames: list[bytes], cuts: list[int]
) -> None:
    connection = made_by(kind)
    connection.data_to_send()
    if state is State.CLOSING:
        connection.close(ResponseCode.OK, "")
    else:
        connection._enter(state)
    data, kept, answered = b"".join(frames), b"", 0
    for number in range(len(data) + 1):
        size = cuts[number % len(cuts)]
        kept, data = kept + data[:size], data[size:]
        consumed, events = connection.receive(kept)
        assert 0 <= consumed <= len(kept)
        assert sum(isinstance(event, Failed) for event in events) <= 1
        kept = kept[consumed:]
        answered += len(connection.data_to_send())
        step(connection)
        if connection.has_ended:
            assert connection.state is State.CLOSING or not kept
        if not data:
            break
    assert answered <= 1_500 + 20 * sum(map(len, frames))
