"""Events that are published over HTTP: content modes, where they go, and what is refused."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any

import pytest

from headwater.client.address import Address
from headwater.client.blocking import BlockingConnection
from headwater.client.stream_consumer import at_offset
from headwater.cloudevents import amqp_binding
from headwater.encoding._hash_kernel import murmur3_32
from tests.event_source import BATCH, EVENT, event, publish, read, word
from tests.http_api import Api, Reply
from tests.peers.servers import Server

BINARY = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/tests", "ce-type": "org.example.test"}


def sent(api: Api, log: str, body: bytes, headers: dict[str, str], query: str = "") -> Reply:
    return api.ask("POST", f"/logs/{log}/events{query}", raw=body, headers=headers)


def made(api: Api, name: str, **wanted: Any) -> None:
    assert api.ask("POST", "/logs", {"name": name, **wanted}).status == 201


def events_of(api: Api, log: str) -> list[Any]:
    return [each["event"] for each in read(api, log, "?limit=1000")["events"]]


def test_binary_mode_takes_attributes_from_headers_and_data_as_they_are(root: Api, name: str) -> None:
    data = b'{ "total":  12.50 }'
    headers = {**BINARY, "ce-subject": "caf%C3%A9", "ce-count": "3", "Content-Type": "application/json"}
    reply = sent(root, name, data, headers)
    assert (reply.status, reply.body) == (200, {"events": [{"partition": "0", "offset": 0}]})
    assert root.text(f"/logs/{name}/events").count(data.decode()) == 1
    (found,) = events_of(root, name)
    assert found == event(
        7, subject="café", count="3", datacontenttype="application/json", data={"total": 12.5}
    )


def test_bytes_that_are_no_text_stay_what_they_are(root: Api, name: str) -> None:
    data = bytes(range(256))
    assert sent(root, name, data, {**BINARY, "Content-Type": "image/png"}).status == 200
    (found,) = events_of(root, name)
    assert found["datacontenttype"] == "image/png"
    assert base64.b64decode(found["data_base64"]) == data


def test_structured_mode_takes_an_event_of_json(root: Api, name: str) -> None:
    one = event(1, data={"a": [1, 2]}, flag=True, number=-3)
    assert sent(root, name, json.dumps(one).encode(), {"Content-Type": EVENT}).status == 200
    assert events_of(root, name) == [{**one, "datacontenttype": "application/json"}]


def test_a_batch_is_answered_event_by_event_in_its_order(root: Api, name: str) -> None:
    reply = publish(root, name, [event(number) for number in range(5)])
    assert reply.body == {"events": [{"partition": "0", "offset": number} for number in range(5)]}
    assert [each["id"] for each in events_of(root, name)] == ["0", "1", "2", "3", "4"]
    assert publish(root, name, []).body == {"events": []}


def test_a_stream_client_finds_them_in_binary_mode_of_the_amqp_binding(
    server: Server, root: Api, name: str
) -> None:
    assert publish(root, name, [event(1, data="hello", datacontenttype="text/plain", count=7)]).status == 200
    with BlockingConnection(Address(port=server.stream_port)) as connection:
        (chunk,) = connection.consumer(name, at_offset(0)).next_chunks(30)
    (record,) = [bytes(record) for _, record in chunk.messages()]
    assert b"\xa1\x0ecloudEvents_id\xa1\x011" in record
    found = amqp_binding.decode(record, 0, len(record))
    assert found.attributes == event(1, count=7, datacontenttype="text/plain")
    assert found.data == b"hello"


def test_the_default_log_takes_what_names_none(root: Api) -> None:
    reply = root.ask("POST", "/events", raw=json.dumps(event("d")).encode(), headers={"Content-Type": EVENT})
    assert reply.status == 200
    assert events_of(root, "events")[-1]["id"] == "d"


# Partitions.


def test_a_key_lands_where_all_clients_put_it(root: Api, name: str) -> None:
    made(root, name, partitions=4)
    events = [event(number, partitionkey=f"key-{number % 7}") for number in range(40)]
    found = publish(root, name, events).body["events"]
    for one, where in zip(events, found, strict=True):
        assert where["partition"] == str(murmur3_32(str(one["partitionkey"]).encode()) % 4)
    for number in range(4):
        ids = [each["event"]["id"] for each in read(root, name, f"?partition={number}")["events"]]
        assert ids == [
            one["id"] for one, at in zip(events, found, strict=True) if at["partition"] == str(number)
        ]
        offsets = [at["offset"] for at in found if at["partition"] == str(number)]
        assert offsets == list(range(len(offsets)))


def test_the_attribute_of_the_key_is_named_by_the_log_or_the_request(root: Api, name: str) -> None:
    made(root, name, partitions=4, settings={"partition_attribute": "subject"})
    one = event(1, subject="a", partitionkey="b", id2="c")
    for query, key in (("", "a"), ("?key=partitionkey", "b"), ("?key=id2", "c")):
        (where,) = publish(root, name, [one], query).body["events"]
        assert where["partition"] == str(murmur3_32(key.encode()) % 4)
    reply = root.ask("PATCH", f"/logs/{name}", {"settings": {"partition_attribute": "Not-A-Name"}})
    assert (reply.status, word(reply)) == (422, "invalid")
    assert word(publish(root, name, [one], "?key=Not-A-Name")) == "invalid"


def test_a_partition_is_named_by_its_id_or_its_name_whatever_the_key(root: Api, name: str) -> None:
    made(root, name, partitions=4)
    for query in ("?partition=2", f"?partition={name}-2"):
        where = publish(root, name, [event(1, partitionkey="a"), event(2)], query).body["events"]
        assert [each["partition"] for each in where] == ["2", "2"]
    assert publish(root, f"{name}-2", [event(3)]).body["events"] == [{"partition": "2", "offset": 4}]
    reply = publish(root, name, [event(1)], "?partition=9")
    assert (reply.status, word(reply)) == (404, "unknown-partition")


def test_requests_without_keys_go_round_the_partitions_and_each_stays_together(root: Api, name: str) -> None:
    made(root, name, partitions=3)
    homes = [publish(root, name, [event(1), event(2)]).body["events"] for _ in range(6)]
    assert all(first["partition"] == second["partition"] for first, second in homes)
    assert [first["partition"] for first, _ in homes] == ["0", "1", "2"] * 2


# What is refused.


@pytest.mark.parametrize(
    ("body", "headers", "status", "kind", "says"),
    [
        (b'{"a": 1}', {"Content-Type": "application/json"}, 400, "invalid-cloudevent", "ce-specversion"),
        (b"", {}, 400, "invalid-cloudevent", "?plain=true"),
        (b"x", {**BINARY, "ce-type": ""}, 400, "invalid-cloudevent", "its type is empty"),
        (b"x", {**BINARY, "ce-specversion": "0.3"}, 400, "invalid-cloudevent", "specversion is not 1.0"),
        (b"x", {**BINARY, "ce-Bad_Name": "1"}, 400, "invalid-cloudevent", "lower-case"),
        (b"x", {**BINARY, "ce-subject": "%ff"}, 400, "invalid-cloudevent", "UTF-8"),
        (b"x", {**BINARY, "ce-time": "yesterday"}, 400, "invalid-cloudevent", "time"),
        (b"{", {"Content-Type": EVENT}, 400, "invalid-cloudevent", "no JSON"),
        (b"[]", {"Content-Type": EVENT}, 400, "invalid-cloudevent", "no JSON"),
        (b"{}", {"Content-Type": EVENT}, 400, "invalid-cloudevent", "is missing"),
        (b"\xff", {"Content-Type": EVENT}, 400, "invalid-cloudevent", "UTF-8"),
        (b'{"data":' + b"[" * 100_000, {"Content-Type": EVENT}, 400, "invalid-cloudevent", "nested"),
        (b"{}", {"Content-Type": BATCH}, 400, "invalid-cloudevent", "no JSON"),
        (b"[{}]", {"Content-Type": BATCH}, 400, "invalid-cloudevent", "event 1 of the batch"),
        (b"x", {"Content-Type": "application/cloudevents+avro"}, 415, "unsupported-media-type", "avro"),
        (b"x", {"Content-Type": "application/cloudevents-batch+avro"}, 415, "unsupported-media-type", "avro"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(
    root: Api, name: str, body: bytes, headers: dict[str, str], status: int, kind: str, says: str
) -> None:
    reply = sent(root, name, body, headers)
    assert (reply.status, word(reply)) == (status, kind)
    assert says in reply.body["detail"]
    assert root.ask("GET", f"/logs/{name}").status == 404, "nothing is made for what is refused"


def test_one_wrong_event_of_a_batch_keeps_all_of_it_out(root: Api, name: str) -> None:
    made(root, name)
    reply = publish(root, name, [event(1), event(2, time="soon"), event(3)])
    assert (reply.status, word(reply)) == (400, "invalid-cloudevent")
    assert "event 2 of the batch" in reply.body["detail"]
    assert read(root, name)["events"] == []


def test_a_plain_body_is_stored_if_that_is_asked_for(root: Api, name: str) -> None:
    assert sent(root, name, b"hello", {"Content-Type": "text/plain"}, "?plain=true").status == 200
    (shown,) = read(root, name)["events"]
    found = shown["event"]
    assert found.pop("time") == shown["accepted"]
    assert found == {
        "specversion": "1.0",
        "id": "0-0",
        "source": f"/logs/{name}",
        "type": "headwater.message",
        "datacontenttype": "text/plain",
        "data": "hello",
    }


def test_bodies_and_events_have_bounds(root: Api, name: str) -> None:
    large = {**BINARY, "Content-Type": "application/octet-stream"}
    reply = sent(root, name, bytes((4 << 20) + 1), large)
    assert (reply.status, word(reply)) == (413, "payload-too-large")
    reply = sent(root, name, bytes((1 << 20) + 1), large)
    assert (reply.status, word(reply)) == (413, "payload-too-large")
    many = [event(number, data="x" * 100_000) for number in range(30)]
    assert len(publish(root, name, many).body["events"]) == 30, "a batch may be larger than one chunk"
    with_key = publish(root, name, many, Idempotency_Key="k")
    assert (with_key.status, word(with_key)) == (413, "payload-too-large")
    assert len(events_of(root, name)) <= 30


def test_rights_are_asked_for_at_every_call(server: Server, root: Api, name: str) -> None:
    ada, reader = (Api(server.http_port, user, "pencil", below="") for user in ("ada", "reader"))
    made(root, f"ada-{name}")
    assert publish(ada, f"ada-{name}", [event(1)]).status == 200
    assert len(read(reader, f"ada-{name}")["events"]) == 1
    for reply in (
        publish(reader, f"ada-{name}", [event(1)]),
        publish(ada, name, [event(1)]),
        publish(ada, f"ada-{name}-missing", [event(1)]),
        ada.ask("POST", "/events", raw=json.dumps(event(1)).encode(), headers={"Content-Type": EVENT}),
        ada.ask("GET", f"/logs/{name}/events"),
    ):
        assert (reply.status, word(reply)) == (403, "forbidden")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("plain text", "plain text"),
        ('"quoted \\" text"', 'quoted " text'),
        ("100%25", "100%"),
        ("back\\slash", "back\\slash"),
        ("caf\xc3\xa9", "café"),
        ("'single'", "'single'"),
    ],
)
def test_header_values_are_texts_of_attributes(root: Api, name: str, given: str, meant: str) -> None:
    assert sent(root, name, b"x", {**BINARY, "ce-subject": given}).status == 200
    (found,) = events_of(root, name)
    assert found["subject"] == meant


def test_a_header_that_is_there_twice_is_refused(server: Server, name: str) -> None:
    for twice, says in (
        (("ce-id", "8"), b"its id is there twice"),
        (("Content-Type", "c/d"), b"urn:headwater"),
    ):
        client = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)
        client.putrequest("POST", f"/logs/{name}/events")
        for header in (
            *BINARY.items(),
            ("Content-Type", "a/b"),
            twice,
            ("Content-Length", "0"),
            ("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q="),
        ):
            client.putheader(*header)
        client.endheaders()
        answer = client.getresponse()
        assert (answer.status, says in answer.read()) == (400, True)
        client.close()
