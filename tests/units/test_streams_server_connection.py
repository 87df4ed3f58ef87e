"""The server's end: the order of the handshake, what is answered by the protocol alone, and how a connection ends."""

from __future__ import annotations

import pytest

from headwater.errors import InvalidSettings, MalformedFrame, MalformedSubBatch
from headwater.streams import commands as c
from headwater.streams.codec import decode_response, encode
from headwater.streams.commands import (
    Command,
    CommandVersion,
    Key,
    OffsetSpecification,
    OffsetType,
    ResponseCode,
)
from headwater.streams.connection import FRAME_SIZE_BYTES_MAX_BEFORE_OPEN, Event, Failed, State
from headwater.streams.errors import FrameTooLarge, OutOfOrder, UnknownFrame
from headwater.streams.publish import encode_publish
from headwater.streams.server_connection import (
    AUTHENTICATION_ROUNDS_MAX,
    CONSUMER_UPDATES_PENDING_MAX,
    SERVER_COMMANDS,
    ServerConnection,
)

OURS = {"product": "headwater", "version": "4.0.5"}
ADVERTISED = {"advertised_host": "h", "advertised_port": "5552"}
PLAIN = c.SaslAuthenticateRequest(3, "PLAIN", b"\0guest\0hunter2")
TUNE = c.TuneResponse(0x100000, 60)
NOWHERE = OffsetSpecification(OffsetType.NONE)


def connection(frame_size_bytes_max: int = 0x100000) -> ServerConnection:
    return ServerConnection(OURS, ["PLAIN", "SCRAM-SHA-256"], frame_size_bytes_max=frame_size_bytes_max)


def take(server: ServerConnection, *commands: Command) -> list[Event]:
    """Events of these commands, all of which are taken."""
    data = b"".join(map(encode, commands))
    consumed, events = server.receive(data)
    assert consumed == len(data)
    return events


def sent(server: ServerConnection) -> list[Command]:
    data, found = server.data_to_send(), []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        found.append(decode_response(data, 4, size))
        data = data[size:]
    return found


def authenticating() -> ServerConnection:
    server = connection()
    take(server, c.PeerPropertiesRequest(1, {}), c.SaslHandshakeRequest(2), PLAIN)
    sent(server)
    return server


def opened(tune: c.TuneResponse = TUNE, frame_size_bytes_max: int = 0x100000) -> ServerConnection:
    server = connection(frame_size_bytes_max)
    take(server, c.PeerPropertiesRequest(1, {}), c.SaslHandshakeRequest(2), PLAIN)
    server.authenticated()
    take(server, tune, c.OpenRequest(4, "/"))
    server.opened(ADVERTISED)
    sent(server)
    assert server.state is State.OPENED
    return server


def closing(server: ServerConnection) -> c.CloseRequest:
    (request,) = sent(server)
    assert isinstance(request, c.CloseRequest)
    assert server.state is State.CLOSING
    return request


def test_handshake_goes_step_by_step() -> None:
    server = connection()
    assert server.data_to_send() == b""
    properties = c.PeerPropertiesRequest(1, {"product": "rstream"})
    assert take(server, properties) == [properties]
    assert server.peer_properties == {"product": "rstream"}
    assert sent(server) == [c.PeerPropertiesResponse(1, ResponseCode.OK, OURS)]
    assert take(server, c.SaslHandshakeRequest(2)) == []
    assert sent(server) == [c.SaslHandshakeResponse(2, ResponseCode.OK, ("PLAIN", "SCRAM-SHA-256"))]
    assert take(server, PLAIN) == [PLAIN]
    assert server.is_waiting
    server.authenticated()
    assert sent(server) == [c.SaslAuthenticateResponse(3, ResponseCode.OK), c.TuneRequest(0x100000, 60)]
    assert take(server, TUNE) == [TUNE]
    assert take(server, c.OpenRequest(4, "/")) == [c.OpenRequest(4, "/")]
    assert server.is_waiting
    server.opened(ADVERTISED)
    assert sent(server) == [c.OpenResponse(4, ResponseCode.OK, ADVERTISED)]
    assert server.state is State.OPENED


def test_frames_behind_a_question_wait_for_the_answer() -> None:
    server = authenticating()
    data = encode(TUNE) + encode(c.OpenRequest(4, "/"))
    assert server.receive(data) == (0, [])
    server.authenticated()
    consumed, events = server.receive(data)
    assert (consumed, len(events)) == (len(data), 2)


def test_challenges_go_to_and_fro_until_a_limit() -> None:
    server = connection()
    take(server, c.PeerPropertiesRequest(1, {}), c.SaslHandshakeRequest(2))
    sent(server)
    for number in range(AUTHENTICATION_ROUNDS_MAX):
        request = c.SaslAuthenticateRequest(number, "SCRAM-SHA-256", b"data")
        assert take(server, request) == [request]
        server.challenge(b"more")
        assert sent(server) == [c.SaslAuthenticateResponse(number, ResponseCode.SASL_CHALLENGE, b"more")]
    assert take(server, c.SaslAuthenticateRequest(99, "SCRAM-SHA-256", b"data")) == []
    assert sent(server) == [c.SaslAuthenticateResponse(99, ResponseCode.SASL_ERROR)]
    assert server.state is State.CLOSED


def test_a_mechanism_that_is_not_offered_is_for_the_shell_to_refuse() -> None:
    server = connection()
    asked = c.SaslAuthenticateRequest(3, "X", b"")
    take(server, c.PeerPropertiesRequest(1, {}), c.SaslHandshakeRequest(2))
    assert take(server, asked) == [asked]
    server.refuse_authentication(ResponseCode.SASL_MECHANISM_NOT_SUPPORTED)
    assert sent(server)[-1] == c.SaslAuthenticateResponse(3, ResponseCode.SASL_MECHANISM_NOT_SUPPORTED)
    assert server.state is State.CLOSED


def test_a_mechanism_does_not_change_between_rounds() -> None:
    server = authenticating()
    server.challenge(b"")
    assert take(server, c.SaslAuthenticateRequest(4, "SCRAM-SHA-256", b"")) == []
    assert sent(server)[-1] == c.SaslAuthenticateResponse(4, ResponseCode.SASL_ERROR)


def test_a_refusal_is_a_code_alone_and_the_end() -> None:
    server = authenticating()
    server.refuse_authentication(ResponseCode.AUTHENTICATION_FAILURE)
    assert sent(server) == [c.SaslAuthenticateResponse(3, ResponseCode.AUTHENTICATION_FAILURE)]
    assert server.state is State.CLOSED
    server = authenticating()
    server.authenticated()
    take(server, TUNE, c.OpenRequest(4, "nowhere"))
    server.refuse_open(ResponseCode.VIRTUAL_HOST_ACCESS_FAILURE)
    assert sent(server)[-1] == c.OpenResponse(4, ResponseCode.VIRTUAL_HOST_ACCESS_FAILURE)
    assert server.state is State.CLOSED


def test_an_answer_that_comes_after_the_end_is_dropped() -> None:
    server = authenticating()
    server.close(ResponseCode.INTERNAL_ERROR, "too slow")
    closing(server)
    server.authenticated()
    server.challenge(b"")
    server.refuse_authentication(ResponseCode.SASL_ERROR)
    server.opened(ADVERTISED)
    server.refuse_open(ResponseCode.ACCESS_REFUSED)
    server.send(c.CreateResponse(5, ResponseCode.OK))
    server.confirm(1, bytes(8))
    server.refuse_messages(1, bytes(8), ResponseCode.PUBLISHER_DOES_NOT_EXIST)
    server.request_consumer_update(1, True)
    server.close(ResponseCode.OK, "again")
    assert server.data_to_send() == b""


def test_an_answer_without_a_question_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        connection().authenticated()


@pytest.mark.parametrize(
    ("client", "agreed", "refused_from"),
    [(0, 0, 0x100001), (9_000, 9_000, 9_001), (0x200000, 0x200000, 0x100001)],
)
def test_the_answer_to_tune_is_final_but_our_own_bound_stays(
    client: int, agreed: int, refused_from: int
) -> None:
    server = opened(c.TuneResponse(client, 0))
    assert (server.frame_size_bytes_max, server.heartbeat_s) == (agreed, 0)
    assert server.receive((refused_from - 1).to_bytes(4, "big")) == (0, [])
    _, events = server.receive(refused_from.to_bytes(4, "big"))
    assert isinstance(events[0], Failed)
    assert isinstance(events[0].error, FrameTooLarge)
    assert closing(server).closing_code == ResponseCode.FRAME_TOO_LARGE


def test_a_large_frame_before_open_is_dropped_without_a_word() -> None:
    server = connection()
    assert server.receive(FRAME_SIZE_BYTES_MAX_BEFORE_OPEN.to_bytes(4, "big")) == (0, [])
    consumed, events = server.receive(b"GET / HTTP/1.1\r\n")
    assert consumed == 16
    assert isinstance(events[0], Failed)
    assert (server.state, server.data_to_send()) == (State.CLOSED, b"")
    assert server.receive(b"more") == (4, [])


@pytest.mark.parametrize("size", [0, 3])
def test_a_frame_without_a_key_is_malformed(size: int) -> None:
    server = opened()
    _, events = server.receive(size.to_bytes(4, "big"))
    assert isinstance(events[0], Failed)
    assert closing(server).closing_code == ResponseCode.UNKNOWN_FRAME


def test_a_command_out_of_order_closes() -> None:
    server = connection()
    data = encode(c.OpenRequest(1, "/")) + encode(c.PeerPropertiesRequest(2, {}))
    consumed, events = server.receive(data)
    assert consumed == len(data)
    assert isinstance(events[0], Failed)
    assert isinstance(events[0].error, OutOfOrder)
    assert len(events) == 1
    assert closing(server).closing_code == ResponseCode.UNKNOWN_FRAME
    assert server.peer_properties == {}


def test_the_handshake_is_not_repeated() -> None:
    server = opened()
    for command in (c.PeerPropertiesRequest(1, {}), PLAIN, TUNE, c.OpenRequest(1, "/")):
        server = opened()
        assert isinstance(take(server, command)[0], Failed)
        closing(server)


@pytest.mark.parametrize("frame", ["00000008 0020 0001 00000001", "00000008 8001 0001 00000001"])
def test_an_unknown_key_closes(frame: str) -> None:
    server = opened()
    _, events = server.receive(bytes.fromhex(frame))
    assert isinstance(events[0], Failed)
    assert isinstance(events[0].error, UnknownFrame)
    request = closing(server)
    assert (request.correlation_id, request.closing_code) == (1, ResponseCode.UNKNOWN_FRAME)


def test_a_malformed_frame_closes() -> None:
    server = opened()
    _, events = server.receive(encode(c.Credit(1, 1)) + bytes.fromhex("00000008 000d 0001 00000001"))
    assert events[0] == c.Credit(1, 1)
    assert isinstance(events[1], Failed)
    assert isinstance(events[1].error, MalformedFrame)
    assert events[1].error.__traceback__ is None
    assert closing(server).closing_code == ResponseCode.UNKNOWN_FRAME


def test_after_a_failure_only_the_answer_to_close_counts() -> None:
    server = opened()
    server.receive(bytes.fromhex("00000004 0020 0001"))
    closing(server)
    assert take(server, c.Credit(1, 1), c.CloseRequest(7, 1, "crossed"), c.DeleteRequest(1, "s")) == []
    passed = encode(c.DeleteRequest(1, "s")) + (0xFFFFFFFF).to_bytes(4, "big") + bytes(100)
    assert server.receive(passed) == (len(passed), [])
    assert (server.state, server.data_to_send()) == (State.CLOSING, b"")
    server = opened()
    server.close(ResponseCode.INTERNAL_ERROR, "x" * 40_000)
    assert len(closing(server).closing_reason or "") == 1_000
    malformed = bytes.fromhex("0000000b 8016 0001 00000001 0001 00")
    events = take(server, c.Heartbeat(), c.Credit(1, 1))
    events += server.receive(malformed + encode(c.CloseResponse(1, ResponseCode.OK)) + b"more")[1]
    assert events == [c.CloseResponse(1, ResponseCode.OK)]
    assert server.state is State.CLOSED


def test_the_answer_to_close_may_come_byte_by_byte() -> None:
    server = opened()
    server.receive(bytes.fromhex("00100000 0020 0001"))
    assert closing(server).closing_code == ResponseCode.UNKNOWN_FRAME
    rest = bytes(0x100000 - 4) + encode(c.CloseResponse(1, ResponseCode.OK))
    kept = b""
    for start in range(0, len(rest), 4099):
        kept += rest[start : start + 4099]
        consumed, events = server.receive(kept)
        kept = kept[consumed:]
        assert len(kept) < 14
    assert events == [c.CloseResponse(1, ResponseCode.OK)]
    assert server.state is State.CLOSED


def test_a_client_that_knows_no_close_is_closed_without_a_word() -> None:
    for platform, state, told in (
        ("javascript", State.CLOSED, []),
        ("Java", State.CLOSING, [c.CloseRequest]),
    ):
        server = connection()
        take(server, c.PeerPropertiesRequest(1, {"platform": platform}))
        sent(server)
        server.close(ResponseCode.OK, "stopping")
        assert server.state is state
        assert list(map(type, sent(server))) == told


def test_a_client_may_close_at_any_step() -> None:
    for server in (connection(), opened()):
        request = c.CloseRequest(9, ResponseCode.OK, "OK")
        assert take(server, request, c.Heartbeat()) == [request]
        assert sent(server) == [c.CloseResponse(9, ResponseCode.OK)]
        assert server.state is State.CLOSED


def test_heartbeats_come_at_any_step_and_are_no_events() -> None:
    for server in (connection(), opened()):
        state = server.state
        assert take(server, c.Heartbeat(), c.Heartbeat()) == []
        assert (server.state, server.data_to_send()) == (state, b"")


@pytest.mark.parametrize(
    ("version", "takes"),
    [((8, 1, 2), True), ((8, 1, 3), True), ((8, 1, 1), False), ((8, 3, 4), False), ((2, 1, 2), False)],
)
def test_deliver_is_of_version_2_for_clients_that_say_so(version: tuple[int, int, int], takes: bool) -> None:
    server = opened()
    assert server.deliver_header(3, 100, 7) == bytes.fromhex("00000069 0008 0001 03")
    assert take(server, c.ExchangeCommandVersionsRequest(5, (CommandVersion(*version),))) == []
    assert sent(server) == [c.ExchangeCommandVersionsResponse(5, ResponseCode.OK, SERVER_COMMANDS)]
    assert server.takes_committed_chunk_id is takes
    if takes:
        header = bytes.fromhex("00000071 0008 0002 03 0000000000000007")
        assert server.deliver_header(3, 100, 7) == header


def test_every_version_is_told_in_the_order_that_clients_want() -> None:
    assert [version.key for version in SERVER_COMMANDS] == [
        *(1, 2, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 22, 23, 24, 25, 28, 29, 30, 31)
    ]
    assert SERVER_COMMANDS[1] == CommandVersion(Key.PUBLISH, 1, 2)
    assert {version.max_version for version in SERVER_COMMANDS if version.key != Key.PUBLISH} == {1}


def test_consumer_updates_are_answered_once() -> None:
    server = opened()
    number = server.request_consumer_update(2, active=True)
    assert sent(server) == [c.ConsumerUpdateRequest(number, 2, True)]
    answer = c.ConsumerUpdateResponse(number, ResponseCode.OK, NOWHERE)
    assert take(server, answer, answer, c.ConsumerUpdateResponse(99, ResponseCode.OK, NOWHERE)) == [answer]
    assert server.state is State.OPENED


def test_consumer_updates_that_nobody_answers_have_a_limit() -> None:
    server = opened()
    for _ in range(CONSUMER_UPDATES_PENDING_MAX):
        server.request_consumer_update(2, active=True)
    sent(server)
    server.request_consumer_update(2, active=False)
    assert closing(server).closing_code == ResponseCode.PRECONDITION_FAILED


def test_confirms_keep_to_the_frame_size_of_the_client() -> None:
    server = opened(c.TuneResponse(40, 60))
    server.confirm(1, bytes(8 * 5))
    server.refuse_messages(1, bytes(8 * 3), ResponseCode.PUBLISHER_DOES_NOT_EXIST)
    server.confirm(1, b"")
    kinds = [type(command) for command in sent(server)]
    assert kinds == [c.PublishConfirm] * 2 + [c.PublishError] * 2


def test_publishes_are_spans_of_the_buffer_they_came_in() -> None:
    server = opened()
    frame = encode_publish(1, [(1, b"abc"), (2, b"de")])
    buffer = b"tail of another" + frame * 2 + frame[:-1]
    consumed, events = server.receive(buffer, 15, len(buffer))
    assert consumed == 2 * len(frame)
    assert [buffer[event.start : event.end] for event in events if isinstance(event, c.Publish)] == [
        frame[13:]
    ] * 2
    assert server.frame_bytes_missing(buffer, 15 + consumed, len(buffer)) == 1
    assert server.frame_bytes_missing(buffer, 15, 17) == 2


def test_small_publishes_in_a_row_become_one() -> None:
    server = opened()
    frames = [encode_publish(id_, [(number, b"abc")]) for number, id_ in enumerate((1, 1, 1, 2, 1))]
    buffer = bytearray(b"".join(frames) + frames[0][:-1])
    consumed, events = server.receive(buffer)
    assert consumed == 5 * len(frames[0])
    found = [event for event in events if isinstance(event, c.Publish)]
    assert [(event.publisher_id, event.count) for event in found] == [(1, 3), (2, 1), (1, 1)]
    assert [bytes(buffer[event.start : event.end]) for event in found] == [
        b"".join(frame[13:] for frame in frames[:3]),
        frames[3][13:],
        frames[4][13:],
    ]


def test_a_large_publish_is_not_joined() -> None:
    server = opened()
    large, small = encode_publish(1, [(1, b"abc")]), encode_publish(1, [(2, bytes(65_536))])
    _, events = server.receive(bytearray(large + small))
    assert [event.count for event in events if isinstance(event, c.Publish)] == [1, 1]


def test_messages_that_do_not_parse_close_with_a_code() -> None:
    server = opened()
    server.fail(MalformedSubBatch(7, "it holds no records"))
    assert closing(server).closing_code == ResponseCode.UNKNOWN_FRAME


def test_passwords_are_not_shown() -> None:
    server = connection()
    events = take(server, c.PeerPropertiesRequest(1, {}), c.SaslHandshakeRequest(2), PLAIN)
    assert "hunter2" not in f"{events} {events!r} {[event.__rich_repr__() for event in events]}"
    assert "hunter2" not in repr(c.SaslAuthenticateResponse(1, 0x0A, b"hunter2"))
    server = connection()
    take(server, c.PeerPropertiesRequest(1, {}), c.SaslHandshakeRequest(2))
    sent(server)
    _, events = server.receive(b"\0\0\0\x18\0\x13\0\1\0\0\0\3\0\x05PLAIN\0\0\0\x20hunter2")
    assert isinstance(events[0], Failed)
    assert "hunter2" not in f"{events[0].error!r} {closing(server)}"


@pytest.mark.parametrize(("name", "value"), [("frame_size_bytes_max", 8_191), ("heartbeat_s", -1)])
def test_settings_have_bounds(name: str, value: int) -> None:
    with pytest.raises(InvalidSettings, match=name):
        ServerConnection(OURS, ["PLAIN"], **{name: value})
