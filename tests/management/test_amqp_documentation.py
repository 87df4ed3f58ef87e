"""docs/amqp.md: its programs print what it says, and its limits and attributes are those of the server."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log.settings import LogPolicies, LogSettings
from headwater.server.amqp.limits import Limits
from headwater.server.config import Settings, describe
from tests.amqp_client import connect
from tests.peers.servers import HOST, Server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "amqp.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
TYPE_ROW = re.compile(r"^\| `([a-z]+\.[a-z.]+)` \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
TIMEOUT_S = 60
LIMITS = Limits()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on which nothing was done yet."""
    started = Server(tmp_path_factory.mktemp("documented") / "data")
    started.start()
    yield started
    started.end()


def test_there_are_programs_and_each_is_followed_by_what_it_prints() -> None:
    assert len(PROGRAMS) == PAGE.count("```python") == 3


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=["publish and read", "manage", "consumers"])
def test_the_programs_print_what_the_page_says(fresh: Server, program: str, printed: str) -> None:
    assert program.count("127.0.0.1:5672") == 1
    code = program.replace("127.0.0.1:5672", f"{HOST}:{fresh.amqp_port}")
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert (done.stdout, done.returncode) == (printed, 0), done.stderr


@pytest.mark.parametrize(
    "bound",
    [
        LIMITS.connections_max,
        f"{LIMITS.step_timeout_s:g} s",
        f"{LIMITS.idle_timeout_s:g} s",
        f"{LIMITS.frame_size_bytes_max} bytes, `amqp_frame_bytes_max`",
        f"{LIMITS.message_size_bytes_max} bytes, announced as max-message-size",
        f"{LIMITS.sessions_max}, {LIMITS.links_max}, {LIMITS.connection_links_max}",
        f"{LIMITS.credit_count}, `amqp_credit_count`",
        f"not whole, of all connections | {LIMITS.partial_bytes_max} bytes",
        f"waiting for one client's socket | {LIMITS.delivery_bytes_high} bytes",
        f"message of a WebSocket | {LIMITS.websocket_message_bytes_max} bytes",
        f"{LIMITS.requests_max} of a connection, {LIMITS.request_bytes_max} bytes each",
        f"{LIMITS.responses_max} of a link, {LIMITS.responses_bytes_max} bytes in all",
    ],
)
def test_the_limits_are_those_of_the_door(bound: object) -> None:
    assert f"{bound}" in PAGE


def test_settings_that_the_page_names_are_settings() -> None:
    known = {each.name for each in describe()}
    named = set(re.findall(r"`(amqp_\w+|auto_create\w*|tls_\w+|sasl_\w+)`", PAGE))
    assert named <= known
    assert {name for name in known if name.startswith("amqp_")} - named == {"amqp_port", "amqp_tls_port"}
    assert f"port {Settings().amqp_port}" in PAGE
    assert f"port {Settings().amqp_tls_port}" in PAGE


def test_the_policies_of_a_log_and_their_defaults_are_all_there() -> None:
    written = dict(re.findall(r"^\| `(\w+)` \| `?(\w+)`? \| ", PAGE, re.MULTILINE))
    defaults = {name: getattr(LogSettings(), name) for name in LogPolicies.__struct_fields__}
    assert written == {name: "none" if value is None else str(value) for name, value in defaults.items()}


def test_types_operations_and_attributes_are_those_that_the_node_tells_of(fresh: Server) -> None:
    told: dict[str, tuple[set[str], set[str]]] = {}
    with connect(HOST, fresh.amqp_port) as client:
        up, _ = client.sender("$management"), client.receiver("$management")
        bodies = []
        for operation in ("GET-OPERATIONS", "GET-ATTRIBUTES"):
            client.ask(up, operation, "org.amqp.management")
            body = client.message().body
            bodies.append(body.value)  # type: ignore[union-attr]
    operations, attributes = bodies
    for name in operations:
        told[name] = set(operations[name]), set(attributes[name])
    written = {
        name: (set(re.findall(r"[A-Z][A-Z-]+\b", done)), set(re.findall(r"`(\w+)`", had)))
        for name, done, had in TYPE_ROW.findall(PAGE)
    }
    assert written == told
