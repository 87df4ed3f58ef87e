"""The Java and the Go client of RabbitMQ Streams: TLS, client certificates, and the other ways to prove a name."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.programs import Program, Refused, connect, java_command, publish, texts
from tests.peers.servers import HOST, PASSWORD, USER, Server

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server that it signed for, and a client of the name `guest`: `NAME.pem` and `NAME.key` each."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, so there are no certificates to try TLS with")
    folder = tmp_path_factory.mktemp("keys")
    make = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    openssl(folder, [*make, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority"])
    for name, subject in (("server", "/CN=localhost"), ("client", f"/CN={USER}")):
        (folder / "names").write_text(f"subjectAltName=IP:{HOST},DNS:localhost\n", encoding="ascii")
        openssl(
            folder,
            [
                "req",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-keyout",
                f"{name}.key",
                "-out",
                "asked",
                "-subj",
                subject,
            ],
        )
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        openssl(folder, ["x509", "-req", "-in", "asked", "-out", f"{name}.pem", *signing])
    return folder


def openssl(folder: Path, arguments: list[str]) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def tls_server(keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tls")
    settings = {"certificate": keys / "server.pem", "key": keys / "server.key", "client_ca": keys / "ca.pem"}
    lines = [f'tls_{name}_file = "{file}"' for name, file in settings.items()]
    (folder / "headwater.toml").write_text("\n".join(lines), encoding="utf-8")
    started = Server(folder / "data", "--config", str(folder / "headwater.toml"), with_tls=True)
    started.start()
    yield started
    started.end()


def assert_it_works(peer: Program, stream: str) -> None:
    """Publish and read: producers and consumers have connections of their own."""
    peer("create", stream=stream)
    peer("producer", **{"as": "p", "stream": stream})
    publish(peer, "p", texts(0, 100))
    peer("consumer", **{"as": "c", "stream": stream, "offset": "first"})
    assert peer("take", of="c", count=100) == [[stream, n, f"message {n}"] for n in range(100)]


@pytest.mark.clause("SP-14")
def test_everything_goes_over_tls(command: list[str], tls_server: Server, keys: Path, stream: str) -> None:
    with Program(command) as peer:
        connect(peer, tls_server, port=tls_server.stream_tls_port, authority=str(keys / "ca.pem"))
        assert_it_works(peer, stream)


@pytest.mark.clause("SP-14")
def test_a_client_certificate_proves_who_one_is(
    command: list[str], tls_server: Server, keys: Path, stream: str
) -> None:
    shown = {
        "certificate": str(keys / "client.pem"),
        "key": str(keys / "client.key"),
        "mechanism": "EXTERNAL",
    }
    tls = {"port": tls_server.stream_tls_port, "authority": str(keys / "ca.pem")}
    with Program(command) as peer:
        connect(peer, tls_server, user="nobody", password="wrong", **tls, **shown)
        assert_it_works(peer, stream)


# The Go client knows PLAIN and EXTERNAL alone.


@pytest.mark.clause("SP-14")
def test_scram_goes_to_and_fro_with_the_java_client(server: Server, stream: str) -> None:
    scram = {"mechanism": "SCRAM-SHA-256", "user": USER}
    with Program(java_command()) as peer:
        connect(peer, server, password=PASSWORD, **scram)
        assert_it_works(peer, stream)
    with Program(java_command()) as peer, pytest.raises(Refused) as refused:
        connect(peer, server, password="wrong", **scram)
    assert refused.value.code == 8


def test_whoever_is_on_this_machine_may_be_anonymous_with_the_java_client(
    server: Server, stream: str
) -> None:
    with Program(java_command()) as peer:
        connect(peer, server, mechanism="ANONYMOUS")
        assert_it_works(peer, stream)
