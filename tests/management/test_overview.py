"""/api/overview, /api/nodes and /api/whoami: figures of the whole, and who may see them."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from headwater import __version__
from headwater.server.http.management.node import Node
from headwater.server.management.turns import COST_PER_TURN, in_turns
from tests.http_api import Api
from tests.peers.servers import HOST, Server
from tests.stream_client import StreamClient

STREAM = {"arguments": {"x-queue-type": "stream"}}


def test_totals_are_those_of_what_the_user_sees(
    api: Api, ada: Api, watcher: Api, client: StreamClient, name: str
) -> None:
    before, before_ada = api.get("/overview"), ada.get("/overview")
    for stream in (name, f"ada-{name}"):
        api.do("PUT", f"/queues/%2F/{stream}", STREAM)
    api.do("PUT", f"/exchanges/%2F/{name}-x", {"type": "direct"})
    client.declare_publisher(1, name)
    client.publish(1, 10)
    client.subscribe(1, name)

    def growth(now: dict[str, dict[str, int]], then: dict[str, dict[str, int]]) -> dict[str, int]:
        both = {**now["object_totals"], **now["queue_totals"]}
        base = {**then["object_totals"], **then["queue_totals"]}
        return {key: both[key] - base[key] for key in both if both[key] != base[key]}

    expected = {"queues": 2, "exchanges": 1, "publishers": 1, "consumers": 1}
    assert growth(api.get("/overview"), before) == {**expected, "messages": 10, "messages_ready": 10}
    assert growth(ada.get("/overview"), before_ada) == {"queues": 1}
    assert watcher.get("/overview")["object_totals"] == api.get("/overview")["object_totals"]


def test_the_versions_are_the_one_announced_to_clients_and_our_own(
    server: Server, api: Api, ada: Api
) -> None:
    shown = api.get("/overview")
    assert (shown["rabbitmq_version"], shown["product_name"]) == ("4.0.5", "Headwater")
    assert shown["product_version"] == __version__
    ports = {(each["protocol"], each["port"]) for each in shown["listeners"]}
    assert ports == {
        ("stream", server.stream_port),
        ("amqp", server.amqp_port),
        ("http", server.http_port),
    }
    assert (shown["damaged"], shown["uncommitted_bytes"]) == ([], 0)
    assert ada.get("/overview").keys().isdisjoint({"listeners", "damaged", "uncommitted_bytes"})


def test_the_node_tells_of_its_process(api: Api, watcher: Api, ada: Api) -> None:
    (node,) = watcher.get("/nodes")
    assert node["name"] == f"headwater@{HOST}"
    assert Path(f"/proc/{node['os_pid']}").exists()
    assert node["running"] is True
    assert node["processors"] == os.cpu_count()
    assert 20 << 20 < node["mem_used"] < 4 << 30
    assert 5 < node["fd_used"] < node["fd_total"]
    assert node["disk_free"] > 0
    assert node["uptime"] > 0
    assert Path(node["db_dir"]).name == "data"
    assert api.get(f"/nodes/{node['name']}")["os_pid"] == node["os_pid"]
    assert api.ask("GET", "/nodes/another").status == 404
    reply = ada.ask("GET", "/nodes")
    assert (reply.status, reply.body["reason"]) == (401, "Not monitor user")


def test_everybody_learns_who_they_are(api: Api, ada: Api, watcher: Api) -> None:
    assert api.get("/whoami") == {"name": "guest", "tags": ["administrator"]}
    assert watcher.get("/whoami") == {"name": "watcher", "tags": ["monitoring"]}
    assert ada.get("/whoami") == {"name": "ada", "tags": []}


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_node_that_listens_everywhere_has_the_name_of_the_machine(tmp_path: Path, host: str) -> None:
    assert Node(host, tmp_path, "4.0.5", 0.0, []).name == f"headwater@{socket.gethostname()}"


def test_a_long_list_lets_others_have_their_turns() -> None:
    async def run() -> tuple[int, list[int]]:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        items = [item async for item in in_turns(range(10 * COST_PER_TURN))]
        task.cancel()
        return turns, items

    turns, items = asyncio.run(run())
    assert items == list(range(10 * COST_PER_TURN))
    assert turns >= 10
