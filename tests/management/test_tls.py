"""TLS at the HTTP door: what comes by it, whom a certificate stands for, and certificates that are read again."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from tests.certificates import make_keys
from tests.conformance.wire import opened
from tests.http_api import Api
from tests.management.test_connections import eventually
from tests.peers.servers import HOST, Server

TIMEOUT_S = 20


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one authority, for a client named guest."""
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder, "guest")
    return folder


@pytest.fixture(scope="module")
def other_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of another authority, for a client that is no user."""
    folder = tmp_path_factory.mktemp("other-keys")
    make_keys(folder, "stranger")
    return folder


@pytest.fixture
def folder(tmp_path: Path, keys: Path) -> Path:
    """With the files that the server reads, which a test may replace."""
    for file in keys.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    settings = {"certificate": "server.pem", "key": "server.key", "client_ca": "ca.pem"}
    lines = [f'tls_{name}_file = "{folder / file}"' for name, file in settings.items()]
    config = folder / "headwater.toml"
    config.write_text("\n".join([*lines, "sasl_failure_delay_s = 0.01"]), "utf-8")
    started = Server(folder / "data", "--config", str(config), with_tls=True)
    started.start()
    yield started
    started.end()


def trusting(keys: Path, client: Path | None = None) -> ssl.SSLContext:
    """What a client needs to trust a server, and to be known by a certificate."""
    context = ssl.create_default_context(cafile=str(keys / "ca.pem"))
    if client is not None:
        context.load_cert_chain(client / "client.pem", client / "client.key")
    return context


def reload(server: Server, pattern: str) -> None:
    """Have the server read its files again, until it says so."""
    before = len(server.lines)
    os.kill(server.pid, signal.SIGHUP)
    eventually(lambda: any(pattern in line for line in server.lines[before:]))


def test_all_that_is_served_comes_by_tls_too(server: Server, keys: Path) -> None:
    secure = Api(server.http_tls_port, below="", tls=trusting(keys))
    assert secure.get("/logs") == {"logs": [], "next": None}
    assert secure.ask("GET", "/health").body["state"] == "ready"
    assert Api(server.http_tls_port, tls=trusting(keys)).get("/whoami")["name"] == "guest"
    assert secure.ask("GET", "/users", headers={"Authorization": "Basic eDp5"}).status == 401


def test_a_client_certificate_stands_for_the_user_of_its_name(
    server: Server, keys: Path, other_keys: Path
) -> None:
    def whoami(tls: ssl.SSLContext) -> int:
        return Api(server.http_tls_port, None, tls=tls).ask("GET", "/whoami").status

    assert whoami(trusting(keys)) == 401
    assert whoami(trusting(keys, client=keys)) == 200
    named = Api(server.http_tls_port, None, tls=trusting(keys, client=keys))
    assert named.get("/whoami") == {"name": "guest", "tags": ["administrator"]}
    assert Api(server.http_tls_port, None, below="", tls=trusting(keys, client=keys)).get("/users")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        whoami(trusting(keys, client=other_keys))


def test_a_certificate_of_nobody_lets_nobody_in_and_a_password_counts_more(
    server: Server, folder: Path, keys: Path, other_keys: Path
) -> None:
    shutil.copy(other_keys / "ca.pem", folder / "ca.pem")
    reload(server, "read the certificates again")
    stranger = trusting(keys, client=other_keys)
    refused = Api(server.http_tls_port, None, below="", tls=stranger).ask("GET", "/logs")
    assert (refused.status, refused.body["detail"]) == (401, "the certificate is of no user here")
    assert Api(server.http_tls_port, below="", tls=stranger).ask("GET", "/logs").status == 200


def test_commands_come_by_tls_with_a_password_or_a_certificate(
    server: Server, keys: Path, tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes((keys / "client.pem").read_bytes() + (keys / "client.key").read_bytes())
    url = ["--url", f"https://{HOST}:{server.http_tls_port}", "--ca-file", str(keys / "ca.pem")]
    for who in ([], ["--certificate-file", str(both)]):
        listed = CliRunner().invoke(app, ["user", "list", "--json", *url, *who])
        assert (listed.exit_code, listed.stderr) == (0, ""), listed.output
        assert '"name": "guest"' in listed.stdout
    untrusted = CliRunner().invoke(app, ["user", "list", *url[:2]])
    assert (untrusted.exit_code, "certificate verify failed" in untrusted.stderr) == (1, True)
    missing = CliRunner().invoke(app, ["log", "list", *url, "--certificate-file", str(tmp_path / "missing")])
    assert (missing.exit_code, "certificate_file" in missing.stderr) == (2, True)


def doors(server: Server) -> list[Callable[[ssl.SSLContext], None]]:
    """A handshake with each port that has TLS."""

    def shakes_hands(port: int) -> Callable[[ssl.SSLContext], None]:
        def shake(context: ssl.SSLContext) -> None:
            with (
                socket.create_connection((HOST, port), TIMEOUT_S) as plain,
                context.wrap_socket(plain, server_hostname=HOST),
            ):
                pass

        return shake

    return [
        shakes_hands(port) for port in (server.http_tls_port, server.stream_tls_port, server.amqp_tls_port)
    ]


def test_new_certificates_count_for_new_connections_at_all_doors_and_old_connections_go_on(
    server: Server, folder: Path, keys: Path, other_keys: Path
) -> None:
    before, after = trusting(keys), trusting(other_keys)
    open_http = http.client.HTTPSConnection(HOST, server.http_tls_port, timeout=TIMEOUT_S, context=before)
    open_http.request("GET", "/health")
    open_http.getresponse().read()
    socket_before = open_http.sock
    with opened(HOST, server.stream_tls_port, tls=before) as wire:
        for shake in doors(server):
            shake(before)
            with pytest.raises(ssl.SSLCertVerificationError):
                shake(after)
        for name in ("server.pem", "server.key", "ca.pem"):
            shutil.copy(other_keys / name, folder / name)
        reload(server, "read the certificates again")
        for shake in doors(server):
            shake(after)
            with pytest.raises(ssl.SSLCertVerificationError):
                shake(before)
        wire.create("still-here")
        open_http.request("GET", "/health")
        assert open_http.getresponse().status == 200
        assert open_http.sock is socket_before
    open_http.close()


def test_files_that_are_no_good_leave_everything_as_it_was(server: Server, folder: Path, keys: Path) -> None:
    (folder / "server.pem").write_text("no certificate", "ascii")
    reload(server, "the certificates stay as they were")
    for shake in doors(server):
        shake(trusting(keys))
    assert Api(server.http_port, below="").get("/health")["state"] == "ready"


def test_a_server_without_certificates_says_that_there_is_nothing_to_read(tmp_path: Path) -> None:
    plain = Server(tmp_path / "data")
    plain.start()
    try:
        reload(plain, "nothing to read again")
        assert Api(plain.http_port, below="").get("/health")["state"] == "ready"
        assert plain.stop() == 0
    finally:
        plain.end()
