"""The client's end: its part of the handshake, answers held against requests, and what the server sends by itself."""

from __future__ import annotations

import struct

import pytest

from headwater.encoding.chunk import ChunkType
from headwater.streams import client_connection
from headwater.streams import commands as c
from headwater.streams.client_connection import CLIENT_COMMANDS, ClientConnection
from headwater.streams.codec import decode_request, encode
from headwater.streams.commands import (
    Command,
    CommandVersion,
    Key,
    OffsetSpecification,
    OffsetType,
    ResponseCode,
)
from headwater.streams.connection import Event, Failed, State
from headwater.streams.deliver import deliver_header
from headwater.streams.errors import ConnectionEnded, InvalidCommand, OutOfOrder
from headwater.streams.publish import encode_publish, publish_confirm

OK = ResponseCode.OK
FIRST = OffsetSpecification(OffsetType.FIRST)


def take(client: ClientConnection, *commands: Command) -> list[Event]:
    data = b"".join(map(encode, commands))
    consumed, events = client.receive(data)
    assert consumed == len(data)
    return events


def sent(client: ClientConnection) -> list[Command]:
    data, found = client.data_to_send(), []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        found.append(decode_request(data, 4, size))
        data = data[size:]
    return found


def authenticating() -> ClientConnection:
    client = ClientConnection({"product": "headwater"}, "/")
    take(client, c.PeerPropertiesResponse(1, OK), c.SaslHandshakeResponse(2, OK, ("PLAIN",)))
    sent(client)
    return client


def opened(tune: c.TuneRequest | None = None) -> ClientConnection:
    client = authenticating()
    client.authenticate("PLAIN", b"\0guest\0guest")
    take(client, c.SaslAuthenticateResponse(3, OK), tune or c.TuneRequest(0x100000, 60))
    take(client, c.OpenResponse(4, OK, {"advertised_host": "h"}))
    take(client, c.ExchangeCommandVersionsResponse(5, OK, (CommandVersion(2, 1, 2),)))
    sent(client)
    assert client.state is State.OPENED
    return client


def test_handshake_goes_step_by_step() -> None:
    client = ClientConnection({"product": "headwater"}, "a vhost", frame_size_bytes_max=9_000)
    assert sent(client) == [c.PeerPropertiesRequest(1, {"product": "headwater"})]
    assert take(client, c.PeerPropertiesResponse(1, OK, {"version": "4.0.5"})) == []
    assert client.peer_properties == {"version": "4.0.5"}
    assert sent(client) == [c.SaslHandshakeRequest(2)]
    mechanisms = c.SaslHandshakeResponse(2, OK, ("PLAIN",))
    assert take(client, mechanisms) == [mechanisms]
    assert client.is_waiting
    client.authenticate("PLAIN", b"\0guest\0guest")
    assert sent(client) == [c.SaslAuthenticateRequest(3, "PLAIN", b"\0guest\0guest")]
    authenticated, tune = c.SaslAuthenticateResponse(3, OK), c.TuneRequest(0x100000, 60)
    assert take(client, authenticated, tune) == [authenticated, tune]
    assert sent(client) == [c.TuneResponse(9_000, 60), c.OpenRequest(4, "a vhost")]
    answer = c.OpenResponse(4, OK, {"advertised_host": "h"})
    assert take(client, answer) == [answer]
    assert sent(client) == [c.ExchangeCommandVersionsRequest(5, CLIENT_COMMANDS)]
    versions = (CommandVersion(1, 1, 1), CommandVersion(2, 1, 2))
    assert take(client, c.ExchangeCommandVersionsResponse(5, OK, versions)) == []
    assert client.server_commands == versions
    assert CommandVersion(Key.DELIVER, 1, 2) in CLIENT_COMMANDS


@pytest.mark.parametrize(
    ("version", "asked"), [("3.10.8", 0), ("3.11.0", 1), ("4.0.5", 1), ("10.0", 1), ("2.99.1", 0), ("x", 1)]
)
def test_versions_are_exchanged_with_servers_that_know_how(version: str, asked: int) -> None:
    client = ClientConnection({})
    take(
        client,
        c.PeerPropertiesResponse(1, OK, {"version": version}),
        c.SaslHandshakeResponse(2, OK, ("PLAIN",)),
    )
    client.authenticate("PLAIN", b"")
    take(client, c.SaslAuthenticateResponse(3, OK), c.TuneRequest(0, 0), c.OpenResponse(4, OK))
    assert [type(command) for command in sent(client)].count(c.ExchangeCommandVersionsRequest) == asked


def test_a_challenge_asks_for_the_next_message_of_the_mechanism() -> None:
    client = authenticating()
    client.authenticate("SCRAM-SHA-256", b"first")
    challenge = c.SaslAuthenticateResponse(3, ResponseCode.SASL_CHALLENGE, b"r=")
    assert take(client, challenge) == [challenge]
    client.authenticate("SCRAM-SHA-256", b"final")
    assert take(client, c.SaslAuthenticateResponse(4, ResponseCode.SASL_CHALLENGE, b"v="))
    client.authenticate("SCRAM-SHA-256", None)
    assert sent(client)[-1] == c.SaslAuthenticateRequest(5, "SCRAM-SHA-256", None)
    assert take(client, c.SaslAuthenticateResponse(5, OK))
    assert client.state is State.TUNE


@pytest.mark.parametrize("step", range(4))
def test_a_refusal_in_the_handshake_is_an_event_and_the_end(step: int) -> None:
    client = ClientConnection({})
    answers = (
        c.PeerPropertiesResponse(1, ResponseCode.INTERNAL_ERROR),
        c.SaslHandshakeResponse(2, ResponseCode.INTERNAL_ERROR),
        c.SaslAuthenticateResponse(3, ResponseCode.AUTHENTICATION_FAILURE),
        c.OpenResponse(4, ResponseCode.VIRTUAL_HOST_ACCESS_FAILURE),
    )
    if step > 0:
        take(client, c.PeerPropertiesResponse(1, OK))
    if step > 1:
        take(client, c.SaslHandshakeResponse(2, OK, ("PLAIN",)))
        client.authenticate("PLAIN", b"")
    if step > 2:
        take(client, c.SaslAuthenticateResponse(3, OK), c.TuneRequest(0, 0))
    assert take(client, answers[step]) == [answers[step]]
    assert client.state is State.CLOSED


@pytest.mark.parametrize(
    ("server", "agreed"),
    [((0, 0), (0x100000, 60)), ((0x200000, 90), (0x100000, 60)), ((9_000, 5), (9_000, 5))],
)
def test_the_smaller_value_of_both_sides_holds_and_0_leaves_it_to_the_other(
    server: tuple[int, int], agreed: tuple[int, int]
) -> None:
    client = opened(c.TuneRequest(*server))
    assert (client.frame_size_bytes_max, client.heartbeat_s) == agreed
    assert client.receive(agreed[0].to_bytes(4, "big")) == (0, [])
    assert isinstance(client.receive((agreed[0] + 1).to_bytes(4, "big"))[1][0], Failed)


def test_answers_have_the_id_of_their_request() -> None:
    client = opened()
    first, second = client.next_correlation_id(), client.next_correlation_id()
    client.send(c.CreateRequest(first, "s"))
    client.send(c.MetadataRequest(second, ("s",)))
    answers = (c.MetadataResponse(second, (), ()), c.CreateResponse(first, ResponseCode.ACCESS_REFUSED))
    assert take(client, *answers) == list(answers)


@pytest.mark.parametrize(
    "answer", [c.CreateResponse(99, OK), c.DeleteResponse(6, OK), c.CreateResponse(5, OK)]
)
def test_an_answer_to_no_request_closes(answer: c.Response) -> None:
    client = opened()
    client.send(c.CreateRequest(6, "s"))
    sent(client)
    (event,) = take(client, answer)
    assert isinstance(event, Failed)
    assert isinstance(event.error, OutOfOrder)
    (request,) = sent(client)
    assert isinstance(request, c.CloseRequest)
    assert request.closing_code == ResponseCode.UNKNOWN_FRAME


def test_requests_that_nobody_answers_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "REQUESTS_PENDING_MAX", 2)
    client = opened()
    client.send(c.DeleteRequest(10, "s"))
    with pytest.raises(InvalidCommand, match="in use"):
        client.send(c.DeleteRequest(10, "s"))
    client.send(c.DeleteRequest(11, "s"))
    with pytest.raises(InvalidCommand, match="unanswered"):
        client.send(c.DeleteRequest(12, "s"))
    assert len(sent(client)) == 2


def test_an_id_in_use_is_not_given_again() -> None:
    client = opened()
    client.send(c.DeleteRequest(6, "s"))
    assert client.next_correlation_id() == 7


def test_chunks_and_ids_are_spans_of_the_buffer_they_came_in() -> None:
    client = opened()
    chunk = struct.pack(">BBHIqQQIII4x", 0x50, 0, 1, 1, -5, 3, 42, 7, 7, 0) + b"\0\0\0\3abc"
    data = b"tail" + deliver_header(1, len(chunk), 41) + chunk + deliver_header(2, len(chunk)) + chunk
    data += publish_confirm(3, bytes(16))
    consumed, events = client.receive(data, 4)
    assert consumed == len(data) - 4
    first, second, confirm = events
    assert isinstance(first, c.Deliver)
    assert isinstance(second, c.Deliver)
    assert isinstance(confirm, c.PublishConfirm)
    assert (first.subscription_id, first.committed_chunk_id) == (1, 41)
    assert (second.subscription_id, second.committed_chunk_id) == (2, None)
    assert data[first.start : first.end] == data[second.start : second.end] == chunk
    assert (first.header.type, first.header.first_offset) == (ChunkType.USER, 42)
    assert (first.header.data_bytes, first.header.timestamp_ms) == (7, -5)
    assert (confirm.count, data[confirm.start : confirm.end]) == (2, bytes(16))


def test_what_the_server_sends_by_itself_is_an_event() -> None:
    client = opened()
    commands = (
        c.PublishError(1, (c.PublishingError(5, ResponseCode.PUBLISHER_DOES_NOT_EXIST),)),
        c.MetadataUpdate(ResponseCode.STREAM_NOT_AVAILABLE, "s"),
        c.CreditResponse(ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST, 9),
        c.ConsumerUpdateRequest(7, 1, True),
    )
    assert take(client, c.Heartbeat(), *commands) == list(commands)
    client.send(c.ConsumerUpdateResponse(7, OK, FIRST))
    client.send_frame(encode_publish(1, [(1, b"abc")]))
    assert sent(client) == [c.ConsumerUpdateResponse(7, OK, FIRST), c.Publish(1, 1, 1, 13, 28)]


def test_the_server_may_close() -> None:
    client = opened()
    request = c.CloseRequest(1, ResponseCode.UNKNOWN_FRAME, "unknown frame")
    assert take(client, request, c.Heartbeat()) == [request]
    assert sent(client) == [c.CloseResponse(1, OK)]
    assert client.state is State.CLOSED
    with pytest.raises(ConnectionEnded):
        client.send(c.Heartbeat())
    with pytest.raises(ConnectionEnded):
        client.send_frame(encode_publish(1, []))


def test_closes_that_cross_are_both_answered() -> None:
    client = opened()
    client.close(OK, "done")
    (request,) = sent(client)
    assert isinstance(request, c.CloseRequest)
    theirs = c.CloseRequest(1, ResponseCode.INTERNAL_ERROR, "stopping")
    assert take(client, c.MetadataUpdate(6, "s"), theirs) == [theirs]
    assert sent(client) == [c.CloseResponse(1, OK)]
    assert client.state is State.CLOSED


def test_a_closed_connection_is_answered() -> None:
    client = opened()
    client.close(OK, "done")
    assert take(client, c.CloseResponse(6, OK)) == [c.CloseResponse(6, OK)]
    assert client.state is State.CLOSED
