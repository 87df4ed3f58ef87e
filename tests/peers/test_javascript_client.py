"""The test suite of `rabbitmq-stream-js-client`, as its package ships it, against a server process.

It takes about two minutes, much of which it spends waiting on purpose.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.http_api import Api
from tests.peers.packages import npm_packages
from tests.peers.servers import HOST, Server

pytestmark = [pytest.mark.peers, pytest.mark.clause("Test suite")]

PACKAGES = Path(__file__).parent / "javascript"
CONFORMANCE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
SUITE_TIMEOUT_S = 900
USER = PASSWORD = "rabbit"  # some of its tests have these names written in them
SUPER_STREAM = "super-stream-test"
TESTS = 218
PASSES = 210

AMQP = "it needs AMQP 0.9.1"
FAILS = {
    "publish a message can be read using classic client": AMQP,
    "publish a message with properties and they are read from classic client": AMQP,
    "publish a message with application properties and they are read from classic client": AMQP,
    "publish a message with custom buffer size limits send a message that triggers buffer size growth": AMQP,
    "declare consumer when receiving a message published from amqplib "
    '"before each" hook for "the message should be handled"': AMQP,
    "connect using EXTERNAL auth": "it needs port 5551 and certificates that the package does not ship",
}
"""What fails, and why; `docs/conformance.md` says the same."""
BY_CHANCE = {
    "super stream publisher publish several messages - they should be routed to different partitions": "nine keys"
    " are drawn at random, and in one of thirteen runs none of them belongs to one of the three partitions",
}
"""What may fail, or pass; the documentation says so, too."""
UNREACHED = 2 - 1
"""Tests behind the one failed hook, less the hook itself."""
SKIPPED = {"declare consumer closing a consumer on an existing stream - raises connectionClosedListener"}
"""By its authors."""


class Suite(NamedTuple):
    """What mocha reported, and what the server said meanwhile."""

    passes: list[str]
    failures: dict[str, str]
    pending: set[str]
    server_lines: list[str]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    folder = tmp_path_factory.mktemp("javascript")
    packages = npm_packages(PACKAGES)
    (folder / "password").write_text(PASSWORD)
    config = folder / "headwater.toml"
    config.write_text(f'admin_user = "{USER}"\nadmin_password_file = "{folder / "password"}"\n')
    server = Server(folder / "data", "--config", str(config))
    server.start()
    try:
        make_super_stream(Api(server.http_port, USER, PASSWORD))
        report = run_mocha(packages / "node_modules", server, folder / "report.json")
        assert server.stop() == 0
    finally:
        server.end()
    return Suite(
        [test["fullTitle"] for test in report["passes"]],
        {test["fullTitle"]: str(test["err"].get("message")) for test in report["failures"]},
        {test["fullTitle"] for test in report["pending"]},
        server.lines,
    )


def make_super_stream(api: Api) -> None:
    """As `rabbitmq-streams add_super_stream` makes it on RabbitMQ."""
    api.do("PUT", f"/exchanges/%2F/{SUPER_STREAM}", {"type": "direct", "arguments": {"x-super-stream": True}})
    for number in range(2):
        stream = f"{SUPER_STREAM}-{number}"
        api.do("PUT", f"/queues/%2F/{stream}", {"arguments": {"x-queue-type": "stream"}})
        binding = {"routing_key": str(number), "arguments": {"x-stream-partition-order": number}}
        api.do("POST", f"/bindings/%2F/e/{SUPER_STREAM}/q/{stream}", binding)


def run_mocha(node_modules: Path, server: Server, report: Path) -> Any:
    """Run all of its tests in one process, as its makers do."""
    streams = f"{HOST}:{server.stream_port}"
    environment = {
        **os.environ,
        "RABBIT_MQ_TEST_NODES": streams,
        "RABBIT_MQ_TEST_ADDRESS_BALANCER": streams,
        "RABBIT_MQ_MANAGEMENT_PORT": str(server.http_port),
        "RABBIT_MQ_AMQP_PORT": str(
            server.http_port
        ),  # where nobody speaks AMQP 0.9.1, whatever runs on this machine
        "RABBITMQ_USER": USER,
        "RABBITMQ_PASSWORD": PASSWORD,
    }
    command = ["node", str(node_modules / "mocha" / "bin" / "mocha.js"), "--exit", "--reporter", "json"]
    done = subprocess.run(
        [*command, "--reporter-option", f"output={report}", "test"],
        check=False,  # it counts its failures
        cwd=node_modules / "rabbitmq-stream-js-client",
        env=environment,
        capture_output=True,
        text=True,
        timeout=SUITE_TIMEOUT_S,
    )
    assert report.exists(), (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return json.loads(report.read_bytes())


def test_every_test_passes_but_those_that_are_named_with_their_reasons(suite: Suite) -> None:
    failures = {title: error for title, error in suite.failures.items() if title not in BY_CHANCE}
    unexpected = {title: error for title, error in failures.items() if title not in FAILS}
    assert not unexpected, "\n".join(f"{title}: {error}" for title, error in unexpected.items())
    assert failures.keys() == FAILS.keys(), "what passes by now is to be taken from the list"
    assert suite.pending == SKIPPED
    assert len(suite.passes) == PASSES - (len(suite.failures) - len(failures))
    assert len(suite.passes) + len(suite.failures) + len(suite.pending) + UNREACHED == TESTS


def test_the_server_had_nothing_to_complain_about(suite: Suite) -> None:
    assert [line for line in suite.server_lines if " error " in line or line.startswith("Traceback")] == []


def test_what_fails_is_told_in_the_documentation() -> None:
    told = " ".join(CONFORMANCE.read_text("utf-8").split())
    assert [title for title in (*FAILS, *BY_CHANCE, *SKIPPED) if title not in told] == []
