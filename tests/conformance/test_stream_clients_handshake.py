"""What stream clients need of the handshake, the exchange of versions, and heartbeats."""

from __future__ import annotations

import ssl
import struct
import time
from pathlib import Path

import pytest

from headwater.encoding.sasl import SCRAM_SHA_256, Response
from headwater.encoding.scram import ScramClient
from headwater.server.security.identity import Peer
from headwater.server.streams.door import Endpoint
from headwater.server.streams.limits import Limits
from headwater.streams import commands as c
from headwater.streams.commands import CommandVersion, Key, ResponseCode
from headwater.streams.server_connection import SERVER_COMMANDS
from tests.certificates import make_keys
from tests.conformance.conftest import Connect
from tests.conformance.listening import ANNOUNCED_VERSION, HOST, ListeningDoor
from tests.conformance.wire import FIRST, OK, Wire, opened, plain
from tests.peers.servers import Server

VERSIONS = bytes.fromhex(
    "0001 0001 0001  0002 0001 0002  0005 0001 0001  0006 0001 0001  0007 0001 0001  0009 0001 0001"
    "000a 0001 0001  000b 0001 0001  000c 0001 0001  000d 0001 0001  000e 0001 0001  000f 0001 0001"
    "0016 0001 0001  0017 0001 0001  0018 0001 0001  0019 0001 0001  001c 0001 0001  001d 0001 0001"
    "001e 0001 0001  001f 0001 0001"
)


@pytest.mark.clause("Handshake 1", "SP-14")
def test_the_handshake_goes_step_by_step_and_a_step_too_early_closes(door: ListeningDoor) -> None:
    steps = (
        lambda wire: wire.ask(c.PeerPropertiesRequest(wire.id(), {}), c.PeerPropertiesResponse),
        lambda wire: wire.ask(c.SaslHandshakeRequest(wire.id()), c.SaslHandshakeResponse),
        lambda wire: (wire.ask(plain(wire), c.SaslAuthenticateResponse), wire.take(c.TuneRequest)),
        lambda wire: wire.send(c.TuneResponse(1 << 20, 60)),
    )
    for reached in range(1 + len(steps)):
        with Wire(HOST, door.port) as wire:
            for step in steps[:reached]:
                step(wire)
            wire.send(c.MetadataRequest(wire.id(), ()))
            assert wire.take(c.CloseRequest).closing_code == ResponseCode.UNKNOWN_FRAME


@pytest.mark.clause("Handshake 2", "SP-14")
def test_peer_properties_tell_a_version_of_three_numbers_and_our_own(door: ListeningDoor) -> None:
    with Wire(HOST, door.port) as wire:
        told = wire.ask(c.PeerPropertiesRequest(wire.id(), {}), c.PeerPropertiesResponse).peer_properties
    assert {"cluster_name", "copyright", "information", "platform", "product", "version"} < told.keys()
    assert told["version"] == ANNOUNCED_VERSION
    assert told["headwater_version"]


@pytest.mark.clause("Handshake 3", "SP-14")
def test_success_is_the_code_alone(door: ListeningDoor) -> None:
    with Wire(HOST, door.port) as wire:
        assert "PLAIN" in wire.greet()
        request = plain(wire)
        wire.send(request)
        assert wire.frame() == struct.pack(">IHHIH", 10, 0x8013, 1, request.correlation_id, OK)


@pytest.mark.clause("Handshake 3", "SP-14")
def test_scram_sends_its_last_message_as_one_more_challenge(door: ListeningDoor) -> None:
    with Wire(HOST, door.port) as wire:
        assert SCRAM_SHA_256 in wire.greet()
        client = ScramClient("guest", "guest", "nonce")
        challenge: bytes | None = None
        for _ in range(2):
            said = client.step(challenge)
            assert isinstance(said, Response)
            answer = wire.ask(
                c.SaslAuthenticateRequest(wire.id(), SCRAM_SHA_256, said.data), c.SaslAuthenticateResponse
            )
            assert answer.response_code == ResponseCode.SASL_CHALLENGE
            challenge = answer.sasl_opaque_data
        assert isinstance(client.step(challenge), Response)
        request = c.SaslAuthenticateRequest(wire.id(), SCRAM_SHA_256, b"")
        wire.send(request)
        assert wire.frame() == struct.pack(">IHHIH", 10, 0x8013, 1, request.correlation_id, OK)
        wire.take(c.TuneRequest)


@pytest.mark.clause("Handshake 3", "SP-14")
def test_plain_may_be_asked_for_its_message(door: ListeningDoor) -> None:
    with Wire(HOST, door.port) as wire:
        wire.greet()
        nothing = c.SaslAuthenticateRequest(wire.id(), "PLAIN", None)
        challenge = wire.ask(nothing, c.SaslAuthenticateResponse)
        assert challenge.response_code == ResponseCode.SASL_CHALLENGE
        assert wire.ask(plain(wire), c.SaslAuthenticateResponse).response_code == OK


@pytest.mark.clause("Handshake 4", "SP-14")
@pytest.mark.parametrize("key", [0x8014, 0x0014])
def test_tune_is_proposed_and_answered_under_either_key(door: ListeningDoor, key: int) -> None:
    with Wire(HOST, door.port) as wire:
        wire.greet()
        wire.ask(plain(wire), c.SaslAuthenticateResponse)
        assert wire.frame() == struct.pack(">IHHII", 12, 0x0014, 1, 0x100000, 60)
        wire.send(struct.pack(">IHHII", 12, key, 1, 1 << 20, 30))
        assert wire.ask(c.OpenRequest(wire.id(), "/"), c.OpenResponse).response_code == OK


@pytest.mark.clause("Handshake 4", "SP-14")
def test_no_limit_of_the_client_leaves_ours(connect: Connect) -> None:
    wire = connect(tune=(0, 0))
    wire.send(((1 << 20) + 1).to_bytes(4, "big"))
    assert wire.take(c.CloseRequest).closing_code == ResponseCode.FRAME_TOO_LARGE


@pytest.mark.clause("Handshake 5")
def test_open_tells_where_to_connect_and_nothing_else_and_metadata_the_same(
    connect: Connect, door: ListeningDoor, tmp_path: Path, stream: str
) -> None:
    for advertised, listening in ((Endpoint(), door), (Endpoint("broker.example", 5559), None)):
        if listening is None:
            with ListeningDoor(tmp_path / "data", advertised=advertised) as other:
                assert told_by(other, stream) == ("broker.example", "5559")
        else:
            assert told_by(listening, stream) == (HOST, str(listening.port))


@pytest.mark.clause("Handshake 5")
def test_each_listener_of_a_server_advertises_what_it_is_told_to_and_the_log_says_it(tmp_path: Path) -> None:
    make_keys(tmp_path, "guest")
    settings = {
        "tls_certificate_file": f'"{tmp_path / "server.pem"}"',
        "tls_key_file": f'"{tmp_path / "server.key"}"',
        "stream_advertised_host": '"plain.example"',
        "stream_advertised_port": "5000",
        "stream_tls_advertised_host": '"secure.example"',
        "stream_tls_advertised_port": "5001",
    }
    config = tmp_path / "headwater.toml"
    config.write_text("\n".join(f"{name} = {value}" for name, value in settings.items()), "utf-8")
    server = Server(tmp_path / "data", "--config", str(config), with_tls=True)
    server.start()
    try:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        plain_end, secure_end = ("plain.example", "5000"), ("secure.example", "5001")
        assert told_at(server.stream_port, "a") == plain_end
        assert told_at(server.stream_tls_port, "b", tls=trusted) == secure_end
    finally:
        server.end()
    for kind, end in (("streams", plain_end), ("streams-tls", secure_end)):
        (line,) = [line for line in server.lines if f" listening {kind} " in line]
        assert line.endswith(f"advertised to clients: {':'.join(end)}")


def told_by(door: ListeningDoor, stream: str) -> tuple[str, str]:
    return told_at(door.port, stream)


def told_at(port: int, stream: str, tls: ssl.SSLContext | None = None) -> tuple[str, str]:
    """What Open says, which Metadata must say too."""
    with Wire(HOST, port, tls=tls) as wire:
        wire.greet()
        wire.ask(plain(wire), c.SaslAuthenticateResponse)
        wire.take(c.TuneRequest)
        wire.send(c.TuneResponse(0, 0))
        told = wire.ask(c.OpenRequest(wire.id(), "/"), c.OpenResponse).connection_properties
        assert list(told) == ["advertised_host", "advertised_port"]
        wire.create(stream)
        found = wire.ask(c.MetadataRequest(wire.id(), (stream,)), c.MetadataResponse)
        end = (told["advertised_host"], told["advertised_port"])
        assert [(broker.host, str(broker.port)) for broker in found.brokers] == [end]
        return end


@pytest.mark.clause("Handshake 6", "SP-14")
def test_a_wrong_password_is_answered_late_by_a_code_alone_and_the_end(tmp_path: Path) -> None:
    limits = Limits(failure_delay_s=0.3)
    with ListeningDoor(tmp_path / "data", limits) as door, Wire(HOST, door.port) as wire:
        wire.greet()
        started = time.monotonic()
        wire.send(plain(wire, "guest", "wrong"))
        assert wire.frame()[4:6] + wire.rest() == b"\x80\x13"
        assert time.monotonic() - started >= limits.failure_delay_s
    assert Limits().step_timeout_s == 10.0


@pytest.mark.clause("Handshake 6", "SP-14")
@pytest.mark.parametrize(
    ("mechanism", "data", "code"),
    [
        ("PLAIN", b"\0guest\0wrong", ResponseCode.AUTHENTICATION_FAILURE),
        ("PLAIN", b"\0nobody\0guest", ResponseCode.AUTHENTICATION_FAILURE),
        ("PLAIN", b"no zero in it", ResponseCode.SASL_ERROR),
        ("CRAM-MD5", b"", ResponseCode.SASL_MECHANISM_NOT_SUPPORTED),
        ("EXTERNAL", b"", ResponseCode.SASL_MECHANISM_NOT_SUPPORTED),
        (SCRAM_SHA_256, b"garbage", ResponseCode.SASL_ERROR),
    ],
)
def test_authentication_that_fails_says_why_and_ends(
    door: ListeningDoor, mechanism: str, data: bytes, code: ResponseCode
) -> None:
    with Wire(HOST, door.port) as wire:
        wire.greet()
        request = c.SaslAuthenticateRequest(wire.id(), mechanism, data)
        assert wire.code(request, c.SaslAuthenticateResponse) == code
        wire.assert_ended()


@pytest.mark.clause("Handshake 6", "SP-14")
def test_guest_from_afar_is_told_that_it_may_not(
    door: ListeningDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Peer(is_loopback=False)
    monkeypatch.setattr("headwater.server.streams.connection.peer_of", lambda _transport: far)
    with Wire(HOST, door.port) as wire:
        wire.greet()
        code = wire.code(plain(wire), c.SaslAuthenticateResponse)
        assert code == ResponseCode.SASL_AUTHENTICATION_FAILURE_LOOPBACK
        wire.assert_ended()


@pytest.mark.clause("Handshake 6", "SP-14")
def test_a_mechanism_that_is_not_offered_is_refused_and_the_log_says_what_to_do(
    door: ListeningDoor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    far = Peer(is_loopback=False)
    monkeypatch.setattr("headwater.server.streams.connection.peer_of", lambda _transport: far)
    monkeypatch.setattr(door.door.sasl, "_allows_plain_without_tls", False)
    with Wire(HOST, door.port) as wire:
        assert "PLAIN" not in wire.greet()
        code = wire.code(plain(wire), c.SaslAuthenticateResponse)
        assert code == ResponseCode.SASL_MECHANISM_NOT_SUPPORTED
        wire.assert_ended()
    assert "'PLAIN' is not offered here; choose one of: SCRAM-SHA-256" in caplog.text
    assert "sasl_plain_without_tls" in caplog.text


@pytest.mark.clause("Handshake 6", "SP-14")
def test_a_vhost_that_is_unknown_or_not_for_this_user_is_refused(tmp_path: Path) -> None:
    with ListeningDoor(tmp_path / "data") as door:
        door.add_user("ada")
        for user, password, vhost in (("guest", "guest", "elsewhere"), ("ada", "pencil", "/")):
            with Wire(HOST, door.port) as wire:
                wire.greet()
                wire.ask(plain(wire, user, password), c.SaslAuthenticateResponse)
                wire.take(c.TuneRequest)
                wire.send(c.TuneResponse(0, 0))
                request = c.OpenRequest(wire.id(), vhost)
                wire.send(request)
                code = ResponseCode.VIRTUAL_HOST_ACCESS_FAILURE
                assert wire.frame() == struct.pack(">IHHIH", 10, 0x8015, 1, request.correlation_id, code)
                wire.assert_ended()


@pytest.mark.clause("Handshake 6", "SP-19")
def test_half_a_handshake_ends_after_its_time_at_every_step(tmp_path: Path) -> None:
    with ListeningDoor(tmp_path / "data", Limits(step_timeout_s=0.3)) as door:
        wires = [Wire(HOST, door.port) for _ in range(5)]
        wires[1].ask(c.PeerPropertiesRequest(1, {}), c.PeerPropertiesResponse)
        wires[2].greet()
        wires[3].greet()
        wires[3].ask(plain(wires[3]), c.SaslAuthenticateResponse)
        wires[3].take(c.TuneRequest)
        wires[4].send(b"\0\0\0\x40\0")
        for wire in wires:
            with wire:
                wire.assert_ended()
        assert door.call(lambda: len(door.door.connections)) == 0


@pytest.mark.clause("Command versions 1", "SP-17")
def test_the_list_of_versions_is_in_the_order_that_clients_need(wire: Wire) -> None:
    wire.send(c.ExchangeCommandVersionsRequest(wire.id(), ()))
    frame = wire.frame()
    assert frame[4:8] == bytes.fromhex("801b 0001")
    assert frame[12:14] == b"\0\1"
    assert frame[14:] == (len(VERSIONS) // 6).to_bytes(4, "big") + VERSIONS


@pytest.mark.clause("Command versions 2", "SP-17")
def test_clients_tell_none_one_or_all_versions_early_or_late(connect: Connect, stream: str) -> None:
    wire = connect()
    wire.create(stream)
    for told in ((), (CommandVersion(Key.PUBLISH, 1, 2),), SERVER_COMMANDS, (CommandVersion(8, 1, 2),)):
        request = c.ExchangeCommandVersionsRequest(wire.id(), told)
        assert wire.ask(request, c.ExchangeCommandVersionsResponse).commands == SERVER_COMMANDS
    wire.declare(1, stream)
    wire.publish(1, [(1, b"a")])
    wire.subscribe(1, stream, FIRST)
    assert wire.chunk().committed_chunk_id == 0


@pytest.mark.clause("Heartbeats", "SP-14")
def test_heartbeats_come_every_half_interval_to_a_client_that_keeps_silent_and_then_the_end(
    door: ListeningDoor,
) -> None:
    with opened(HOST, door.port, tune=(1 << 20, 1)) as wire:
        started = time.monotonic()
        beats: list[float] = []
        while len(beats) < 4:
            assert wire.frame() == bytes.fromhex("00000004 0017 0001")
            beats.append(time.monotonic() - started)
        assert beats[0] >= 0.4
        assert beats[3] >= 1.9
        wire.assert_ended()
        assert time.monotonic() - started >= 1.9


@pytest.mark.clause("Heartbeats", "SP-14")
def test_a_client_that_beats_stays_and_one_without_heartbeats_too(door: ListeningDoor) -> None:
    with opened(HOST, door.port, tune=(0, 1)) as beating, opened(HOST, door.port, tune=(0, 0)) as quiet:
        for _ in range(6):
            beating.send(c.Heartbeat())
            time.sleep(0.5)
        for wire in (beating, quiet):
            wire.assert_nothing_came()


@pytest.mark.clause("Heartbeats", "SP-14")
def test_a_heartbeat_never_stands_within_a_chunk_that_is_half_written(
    door: ListeningDoor, stream: str
) -> None:
    with opened(HOST, door.port) as writer:
        writer.create(stream)
        writer.declare(1, stream)
        writer.publish(1, [(number, bytes(100_000)) for number in range(9)])
        for number in range(1, 20):
            writer.publish(1, [(9 * number + each, bytes(100_000)) for each in range(9)])
    with opened(HOST, door.port, tune=(1 << 20, 1), receive_buffer_bytes=1 << 16) as reader:
        reader.subscribe(1, stream)
        time.sleep(1.2)  # heartbeats are due, and the socket is full
        reader.send(c.Heartbeat())
        sizes = 0
        while sizes < 180 * 100_000:
            frame = reader.frame()
            assert frame[4:8] in (bytes.fromhex("0008 0001"), bytes.fromhex("0017 0001"))
            if frame[5] == Key.DELIVER:
                assert frame[9] == 0x50
                sizes += int.from_bytes(frame[9 + 36 : 9 + 40], "big") // 100_004 * 100_000
