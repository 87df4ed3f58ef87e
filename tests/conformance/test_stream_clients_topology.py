"""What stream clients need of streams and super streams: metadata, creation, names, deletion, statistics, the end."""

from __future__ import annotations

import struct

import pytest

from headwater.server.security.permissions import Permission
from headwater.streams import commands as c
from headwater.streams.commands import NO_LEADER, OffsetType, ResponseCode
from tests.conformance.conftest import Connect
from tests.conformance.listening import HOST, PASSWORD, ListeningDoor
from tests.conformance.wire import FIRST, OK, Wire, opened

EXISTS = ResponseCode.STREAM_ALREADY_EXISTS
FAILED = ResponseCode.PRECONDITION_FAILED
REFUSED = ResponseCode.ACCESS_REFUSED
MISSING = ResponseCode.STREAM_DOES_NOT_EXIST


def create(wire: Wire, stream: str, **arguments: str) -> int:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return wire.code(c.CreateRequest(wire.id(), stream, named), c.CreateResponse)


def create_super(wire: Wire, name: str, partitions: tuple[str, ...], keys: tuple[str, ...]) -> int:
    request = c.CreateSuperStreamRequest(wire.id(), name, partitions, keys)
    return wire.code(request, c.CreateSuperStreamResponse)


def delete(wire: Wire, stream: str) -> int:
    return wire.code(c.DeleteRequest(wire.id(), stream), c.DeleteResponse)


@pytest.mark.clause("Metadata", "SP-13")
def test_metadata_of_what_is_not_there_has_a_code_no_leader_and_all_brokers(wire: Wire, stream: str) -> None:
    wire.create(stream)
    found = wire.ask(c.MetadataRequest(wire.id(), (stream, "missing")), c.MetadataResponse)
    there, missing = found.stream_metadata
    assert (there.response_code, there.leader_reference, there.replicas_references) == (OK, 0, ())
    assert missing.response_code == MISSING
    assert (missing.leader_reference, missing.replicas_references) == (NO_LEADER, ())
    assert NO_LEADER == 0xFFFF
    assert [broker.reference for broker in found.brokers] == [0]
    nothing = wire.ask(c.MetadataRequest(wire.id(), ("missing",)), c.MetadataResponse)
    assert nothing.brokers == found.brokers


@pytest.mark.clause("Metadata", "SP-12", "SP-13")
def test_whoever_uses_a_stream_is_told_after_the_answer_when_it_goes_and_nobody_else(
    connect: Connect, stream: str
) -> None:
    owner, publisher, reader, other = (connect() for _ in range(4))
    owner.create(stream)
    owner.declare(9, stream)
    publisher.declare(1, stream)
    publisher.declare(2, stream, "ada")
    reader.subscribe(7, stream)
    assert delete(owner, stream) == OK
    told = struct.pack(">HHHH", 0x10, 1, 6, len(stream)) + stream.encode()
    for wire in (owner, publisher, reader):
        assert wire.frame()[4:] == told
        wire.assert_nothing_came()
    other.assert_nothing_came()
    request = c.DeletePublisherRequest(publisher.id(), 1)
    assert publisher.code(request, c.DeletePublisherResponse) == ResponseCode.PUBLISHER_DOES_NOT_EXIST, (
        "it is dropped"
    )
    gone = c.UnsubscribeRequest(reader.id(), 7)
    assert reader.code(gone, c.UnsubscribeResponse) == ResponseCode.SUBSCRIPTION_ID_DOES_NOT_EXIST
    assert delete(owner, stream) == MISSING
    owner.create(stream)
    publisher.declare(1, stream)
    reader.subscribe(7, stream)


@pytest.mark.clause("Metadata", "SP-13", "SP-15")
def test_whoever_uses_partitions_is_told_of_each_when_a_super_stream_goes(
    connect: Connect, stream: str
) -> None:
    owner, user = connect(), connect()
    parts = tuple(f"{stream}-{number}" for number in range(3))
    assert create_super(owner, stream, parts, ("0", "1", "2")) == OK
    user.declare(1, parts[0])
    user.subscribe(1, parts[2])
    request = c.DeleteSuperStreamRequest(owner.id(), stream)
    assert owner.code(request, c.DeleteSuperStreamResponse) == OK
    told = [user.take(c.MetadataUpdate) for _ in range(2)]
    assert [(each.code, each.stream) for each in told] == [(6, parts[0]), (6, parts[2])]
    user.assert_nothing_came()


@pytest.mark.clause("Create and names", "SP-12")
def test_the_same_again_another_and_names_that_cannot_be(wire: Wire, stream: str) -> None:
    assert create(wire, stream, max_age="1h") == OK
    assert create(wire, stream, max_age="1h") == EXISTS
    assert create(wire, stream, max_age="60m") == EXISTS
    assert create(wire, stream, max_age="2h") == FAILED
    for name in ("", " ", "amq.mine"):
        assert create(wire, name) == FAILED


@pytest.mark.clause("Create and names", "SP-12")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"x-made-up": "7"}, OK),
        ({"max-length-bytes": "20000", "stream-max-segment-size-bytes": "1000"}, OK),
        ({"max-length-bytes": "many"}, FAILED),
        ({"stream-filter-size-bytes": "16"}, OK),
        ({"stream-filter-size-bytes": "255"}, OK),
        ({"stream-filter-size-bytes": "15"}, FAILED),
        ({"stream-filter-size-bytes": "256"}, FAILED),
        ({"queue-leader-locator": "least-leaders", "initial-cluster-size": "3"}, OK),
        ({"queue-leader-locator": "everywhere"}, FAILED),
        *(({"max-age": age}, OK) for age in ("1Y", "1M", "1D", "1h", "1m", "1s", "1.5h", "")),
        *(({"max-age": age}, FAILED) for age in ("1", "1w", "-1h", "h")),
    ],
)
def test_arguments_are_taken_or_refused(
    wire: Wire, stream: str, arguments: dict[str, str], code: ResponseCode
) -> None:
    assert create(wire, stream, **arguments) == code


@pytest.mark.clause("Create and names", "SP-2", "SP-5", "SP-10")
def test_references_have_255_bytes_at_most(wire: Wire, stream: str) -> None:
    wire.create(stream)
    for reference, code in (("é" * 127 + "x", OK), ("é" * 128, FAILED)):
        declare = c.DeclarePublisherRequest(wire.id(), 1, reference, stream)
        assert wire.code(declare, c.DeclarePublisherResponse) == code
        query = c.QueryPublisherSequenceRequest(wire.id(), reference, stream)
        assert wire.code(query, c.QueryPublisherSequenceResponse) == code
        wire.send(c.StoreOffset(reference, stream, 5))
        stored = wire.ask(c.QueryOffsetRequest(wire.id(), reference, stream), c.QueryOffsetResponse)
        assert (stored.response_code, stored.offset) == ((OK, 5) if code == OK else (FAILED, 0))


@pytest.mark.clause("Create and names", "SP-10")
def test_an_offset_that_cannot_be_stored_is_dropped_without_a_word(wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.send(
        c.StoreOffset("ada", "missing", 5), c.StoreOffset("x" * 256, stream, 5), c.StoreOffset("", stream, 5)
    )
    wire.assert_nothing_came()
    wire.send(c.QueryOffsetRequest(7, "ada", stream))
    assert wire.frame()[4:] == struct.pack(">HHIHQ", 0x800B, 1, 7, ResponseCode.NO_OFFSET, 0)


@pytest.mark.clause("Super streams, stats, close", "SP-15")
def test_super_streams_have_their_codes(wire: Wire, stream: str) -> None:
    parts = (f"{stream}-b", f"{stream}-a")
    assert create_super(wire, stream, parts, ("1", "2")) == OK
    assert create_super(wire, stream, parts, ("1", "2")) == EXISTS
    assert create_super(wire, f"{stream}-other", parts, ("1", "2")) == EXISTS
    assert create_super(wire, f"{stream}-fewer", (f"{stream}-c",), ("1", "2")) == FAILED
    assert create_super(wire, f"{stream}-none", (), ()) == FAILED
    assert create_super(wire, "", (f"{stream}-d",), ("1",)) == FAILED
    assert create(wire, stream) == EXISTS
    assert delete(wire, stream) == MISSING, "a super stream is no stream"
    for name in parts:
        assert delete(wire, name) == FAILED, "a partition goes with the others"
    missing = c.DeleteSuperStreamRequest(wire.id(), "missing")
    assert wire.code(missing, c.DeleteSuperStreamResponse) == MISSING
    found = wire.ask(c.PartitionsRequest(wire.id(), stream), c.PartitionsResponse)
    assert found.streams == parts, "in the order of their creation"
    assert wire.code(c.PartitionsRequest(wire.id(), "missing"), c.PartitionsResponse) == MISSING


@pytest.mark.clause("Super streams, stats, close", "SP-15")
def test_a_route_without_a_match_is_empty_and_of_nothing_unknown(wire: Wire, stream: str) -> None:
    parts = (f"{stream}-0", f"{stream}-1")
    assert create_super(wire, stream, parts, ("eu", "us")) == OK
    cases = {"us": (OK, parts[1:]), "asia": (OK, ())}
    for key, expected in cases.items():
        route = wire.ask(c.RouteRequest(wire.id(), key, stream), c.RouteResponse)
        assert (route.response_code, route.streams) == expected
    assert wire.code(c.RouteRequest(wire.id(), "us", "missing"), c.RouteResponse) == MISSING


@pytest.mark.clause("Super streams, stats, close", "SP-17")
def test_statistics_are_minus_one_while_there_is_nothing(wire: Wire, stream: str) -> None:
    wire.create(stream)
    names = ("first_chunk_id", "committed_chunk_id", "last_chunk_id", "committed_offset")
    stats = wire.ask(c.StreamStatsRequest(wire.id(), stream), c.StreamStatsResponse).stats
    assert stats == dict.fromkeys(names, -1)
    wire.declare(1, stream)
    wire.publish(1, [(1, b"a"), (2, b"b")])
    wire.publish(1, [(3, b"c"), (4, b"d")])
    stats = wire.ask(c.StreamStatsRequest(wire.id(), stream), c.StreamStatsResponse).stats
    assert stats == dict(zip(names, (0, 2, 2, 3), strict=True))
    assert wire.code(c.StreamStatsRequest(wire.id(), "missing"), c.StreamStatsResponse) == MISSING


@pytest.mark.clause("SP-20")
def test_offset_specifications_are_resolved(wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.declare(1, stream)
    for number in range(1, 4):
        wire.publish(1, [(2 * number, b"a"), (2 * number + 1, b"b")])
    cases = {
        OffsetType.FIRST: 0,
        OffsetType.LAST: 4,
        OffsetType.NEXT: 6,
    }
    for kind, offset in cases.items():
        request = c.ResolveOffsetSpecRequest(wire.id(), stream, c.OffsetSpecification(kind))
        answer = wire.ask(request, c.ResolveOffsetSpecResponse)
        assert answer.response_code == OK
        assert answer.offset_specification == c.OffsetSpecification(OffsetType.OFFSET, offset)
    request = c.ResolveOffsetSpecRequest(wire.id(), "missing", FIRST)
    assert wire.code(request, c.ResolveOffsetSpecResponse) == MISSING


@pytest.mark.clause("Super streams, stats, close", "SP-14")
def test_a_close_is_answered_and_the_socket_closed(wire: Wire) -> None:
    wire.send(c.CloseRequest(77, 1, "done"))
    assert wire.frame() == struct.pack(">IHHIH", 10, 0x8016, 1, 77, OK)
    wire.assert_ended()


@pytest.mark.clause("SP-1")
def test_everybody_is_refused_what_they_have_no_right_to(
    door: ListeningDoor, wire: Wire, stream: str
) -> None:
    """And is not told by the code whether it is there."""
    wire.create(stream)
    wire.declare(1, stream)
    door.add_user(f"user-{stream}", {"/": Permission("own.*", "own.*", "own.*")})
    with opened(HOST, door.port, user=f"user-{stream}", password=PASSWORD) as stranger:
        for name in (stream, "missing"):
            assert create(stranger, name) == REFUSED
            assert delete(stranger, name) == REFUSED
            assert create_super(stranger, name, ("own-0",), ("0",)) == REFUSED
            assert create_super(stranger, "own", (f"{name}-0",), ("0",)) == REFUSED
            id_ = stranger.id
            answers: list[tuple[c.Request, type[c.Response]]] = [
                (c.DeleteSuperStreamRequest(id_(), name), c.DeleteSuperStreamResponse),
                (c.DeclarePublisherRequest(id_(), 1, None, name), c.DeclarePublisherResponse),
                (c.QueryPublisherSequenceRequest(id_(), "ada", name), c.QueryPublisherSequenceResponse),
                (c.SubscribeRequest(id_(), 1, name, FIRST, 1), c.SubscribeResponse),
                (c.QueryOffsetRequest(id_(), "ada", name), c.QueryOffsetResponse),
                (c.StreamStatsRequest(id_(), name), c.StreamStatsResponse),
                (c.ResolveOffsetSpecRequest(id_(), name, FIRST), c.ResolveOffsetSpecResponse),
            ]
            for request, kind in answers:
                assert stranger.code(request, kind) == REFUSED, request


@pytest.mark.clause("SP-1")
def test_rights_that_are_taken_away_count_at_once(door: ListeningDoor, wire: Wire, stream: str) -> None:
    wire.create(stream)
    wire.declare(1, stream)
    user = f"user-{stream}"
    door.add_user(user, {"/": Permission("", ".*", ".*")})
    with opened(HOST, door.port, user=user, password=PASSWORD) as ada:
        ada.declare(1, stream)
        ada.publish(1, [(1, b"a")])
        ada.subscribe(1, stream)
        ada.chunk()
        door.permit(user)
        ada.send(publish_one(1, 2))
        error = ada.take(c.PublishError)
        assert [(each.publishing_id, each.code) for each in error.publishing_errors] == [(2, REFUSED)]
        wire.publish(1, [(1, b"b")])
        assert ada.take(c.MetadataUpdate).stream == stream, "its subscription is gone"
        ada.assert_nothing_came()


def publish_one(publisher_id: int, publishing_id: int) -> bytes:
    return struct.pack(">IHHBIQI", 22, 2, 1, publisher_id, 1, publishing_id, 1) + b"x"


@pytest.mark.clause("SP-1", "SP-14")
def test_vhosts_are_apart(door: ListeningDoor, wire: Wire, stream: str) -> None:
    door.run(door.catalogue.add_vhost(stream))
    door.run(door.catalogue.set_permission("guest", stream, Permission(".*", ".*", ".*")))
    wire.create(stream)
    with opened(HOST, door.port, vhost=stream) as elsewhere:
        (found,) = elsewhere.ask(
            c.MetadataRequest(elsewhere.id(), (stream,)), c.MetadataResponse
        ).stream_metadata
        assert found.response_code == MISSING
        elsewhere.create(stream)
        elsewhere.declare(1, stream)
        elsewhere.publish(1, [(1, b"there")])
        wire.subscribe(1, stream)
        wire.assert_nothing_came()
        assert delete(wire, stream) == OK
        assert wire.take(c.MetadataUpdate).stream == stream
        elsewhere.assert_nothing_came()
        elsewhere.subscribe(1, stream)
        assert elsewhere.messages(1) == [(0, b"there")]
