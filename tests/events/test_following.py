"""Server-sent events: followed live, resumed without gap or duplicate, ended with a reason; slow readers bounded."""

from __future__ import annotations

import json
import random
import socket
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.event_source import BATCH, EventSource, event, publish
from tests.http_api import Api
from tests.peers.servers import Server

BYTES = 20_000


def made(api: Api, name: str, partitions: int = 1) -> None:
    assert api.ask("POST", "/logs", {"name": name, "partitions": partitions}).status == 201


def path(name: str, query: str = "") -> str:
    return f"/logs/{name}/events{query}"


def test_what_is_there_comes_first_and_then_what_is_new(server: Server, root: Api, name: str) -> None:
    publish(root, name, [event(1), event(2, data="two\nlines", datacontenttype="text/plain")])
    source = EventSource(server.http_port, path(name))
    assert (source.status, source.content_type) == (200, "text/event-stream; charset=utf-8")
    first, second = source.take(2)
    assert (first.id, first.type, first.event) == ("0:1", "message", event(1))
    assert second.event["data"] == "two\nlines"
    assert source.retry_ms > 0
    publish(root, name, [event(3)])
    assert source.take(1)[0].event == event(3)
    source.close()


def test_data_of_several_lines_stay_the_same_json(server: Server, root: Api, name: str) -> None:
    pretty = json.dumps(event(1, data={"a": [1, 2]}), indent=2).replace("\n", "\r\n").encode()
    root.ask("POST", path(name), raw=pretty, headers={"Content-Type": "application/cloudevents+json"})
    source = EventSource(server.http_port, path(name))
    assert source.take(1)[0].event["data"] == {"a": [1, 2]}
    source.close()


def test_only_what_comes_from_now_on_can_be_asked_for(server: Server, root: Api, name: str) -> None:
    publish(root, name, [event(1)])
    source = EventSource(server.http_port, path(name, "?offset=next"))
    publish(root, name, [event(2)])
    assert source.take(1)[0].event["id"] == "2"
    source.close()


def test_a_filter_chooses_what_is_followed(server: Server, root: Api, name: str) -> None:
    publish(root, name, [event(number) for number in range(5000)])
    source = EventSource(server.http_port, path(name, "?filter=" + quote("id IN ('4998', 'new')")))
    publish(root, name, [event("old"), event("new")])
    assert [each.event["id"] for each in source.take(2)] == ["4998", "new"]
    source.close()


def test_who_connects_again_and_again_sees_each_event_once(server: Server, root: Api, name: str) -> None:
    made(root, name, 4)
    rng, count = random.Random(6), 600
    published = threading.Event()

    def publish_all() -> None:
        for start in range(0, count, 20):
            publish(
                root, name, [event(each, partitionkey=str(each % 37)) for each in range(start, start + 20)]
            )
        published.set()

    publishing = threading.Thread(target=publish_all)
    publishing.start()
    seen: list[int] = []
    last: str | None = None
    while len(seen) < count:
        source = EventSource(server.http_port, path(name), last_event_id=last)
        for sent in source.take(min(rng.randint(1, 90), count - len(seen))):
            seen.append(int(sent.event["id"]))
            last = sent.id
        source.close()
    publishing.join()
    assert published.is_set()
    assert sorted(seen) == list(range(count))
    for key in range(37):
        mine = [each for each in seen if each % 37 == key]
        assert mine == sorted(mine), "each partition keeps its order"


def test_a_position_goes_on_across_a_restart(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    server.start()
    try:
        api = Api(server.http_port, below="")
        publish(api, "log", [event(1), event(2)])
        with EventSource(server.http_port, path("log")) as source:
            (first,) = source.take(1)
            server.stop()
            assert [each.type for each in source][-1:] == ["end"], "the stream says that the server stops"
        server.start()
        publish(api, "log", [event(3)])
        with EventSource(server.http_port, path("log"), last_event_id=first.id) as again:
            assert [each.event["id"] for each in again.take(2)] == ["2", "3"]
    finally:
        server.end()


def test_the_end_of_a_log_is_told_with_the_reason(server: Server, root: Api, name: str) -> None:
    made(root, name, 2)
    publish(root, name, [event(1)])
    with EventSource(server.http_port, path(name)) as source:
        source.take(1)
        root.do("DELETE", f"/logs/{name}")
        (end,) = list(source)
    assert (end.type, json.loads(end.data)) == ("end", {"reason": "the log was deleted"})


@pytest.mark.parametrize(
    ("query", "status"), [("?position=0:9", 422), ("?partition=9", 404), ("?limit=0", 400)]
)
def test_what_cannot_be_followed_is_refused_before_anything_is_sent(
    server: Server, root: Api, name: str, query: str, status: int
) -> None:
    made(root, name)
    with EventSource(server.http_port, path(name, query)) as refused:
        assert refused.status == status
    with EventSource(server.http_port, path(name), last_event_id="nonsense") as refused:
        assert refused.status == 422
    with EventSource(server.http_port, path(name), user="nobody") as refused:
        assert refused.status == 401


def test_a_client_of_http_1_0_gets_the_events_without_chunks(server: Server, root: Api, name: str) -> None:
    publish(root, name, [event(1)])
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as client:
        head = f"GET {path(name)} HTTP/1.0\r\nAccept: text/event-stream\r\n"
        client.sendall(f"{head}Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n".encode())
        received = b""
        while b'"id":"1"' not in received:
            received += client.recv(65536)
    body = received.partition(b"\r\n\r\n")[2]
    assert body.startswith(b"retry: ")
    assert b"\n\nid: 0:1\ndata: {" in body


def test_who_does_not_read_costs_a_bounded_amount_and_misses_nothing(
    server: Server, root: Api, name: str
) -> None:
    made(root, name)
    events = [event(number, data="x" * BYTES) for number in range(50)]
    slow = EventSource(server.http_port, path(name))
    quick = EventSource(server.http_port, path(name))
    assert publish(root, name, events).status == 200
    assert len(quick.take(50)) == 50
    before = memory_mib(server)
    for _ in range(40):
        assert publish(root, name, events).status == 200
        assert len(quick.take(50)) == 50
    # 40 MB were sent past the slow one; what the server's cache of the log holds is bounded by 32 MiB.
    assert memory_mib(server) - before < 60
    assert [each.event["id"] for each in slow.take(41 * 50)] == [str(number) for number in range(50)] * 41
    slow.close()
    quick.close()


def test_a_thousand_readers_get_every_event(server: Server, root: Api, name: str) -> None:
    made(root, name)
    sources = [EventSource(server.http_port, path(name)) for _ in range(1000)]
    try:
        publish(root, name, [event(number) for number in range(3)])
        for source in sources:
            assert [each.event["id"] for each in source.take(3)] == ["0", "1", "2"]
        assert memory_mib(server) < 400
    finally:
        for source in sources:
            source.close()


def memory_mib(server: Server) -> int:
    """What the process holds."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def test_batches_are_not_meant_by_an_event_stream(root: Api, name: str) -> None:
    publish(root, name, [event(1)])
    assert root.ask("GET", path(name), headers={"Accept": f"text/plain, {BATCH};q=0.5"}).body == [event(1)]
