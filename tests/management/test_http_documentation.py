"""docs/http.md: its commands print what it says, and its tables are those of the server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headwater.server.config import Settings, describe
from headwater.server.http import problems
from headwater.server.http.answers import BODY_TIMEOUT_S
from headwater.server.http.endpoint import BODY_BYTES_MAX
from headwater.server.http.listener import HEADERS_MAX
from headwater.server.http.paging import PAGE_ITEMS_MAX, Page
from headwater.server.metrics import CONSUMERS_MAX, LOGS_MAX
from tests.http_api import Api
from tests.peers.servers import HOST, Server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "http.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
ROW = re.compile(r"^\| (GET|POST|PATCH|DELETE) \| `(/\S+)` \| (.+) \|$", re.MULTILINE)
SETUP = "HEADWATER=http://127.0.0.1:8080\njson='content-type: application/json'\n"
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on which nothing was done yet."""
    started = Server(tmp_path_factory.mktemp("documented") / "data")
    started.start()
    yield started
    started.end()


def test_every_command_is_followed_by_what_it_prints() -> None:
    assert len(BLOCKS) == PAGE.count("```sh") >= 6
    assert PAGE.count("curl ") > 12


def test_the_commands_print_what_the_page_says(fresh: Server) -> None:
    """One after the other, as who reads the page tries them: they go on with what those before have made."""
    url = f"http://{HOST}:{fresh.http_port}"
    command = f'headwater() {{ "{sys.executable}" -m headwater.cli.main "$@"; }}\n'
    for script, printed in BLOCKS:
        text = f"set -e\n{command}{SETUP}{script}".replace("http://127.0.0.1:8080", url)
        done = subprocess.run(
            ["sh", "-c", text],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "HEADWATER_HTTP_URL": url},
        )
        assert (done.returncode, done.stderr) == (0, ""), script
        assert done.stdout.strip() == printed.strip(), script


def test_the_page_lists_every_endpoint_and_who_may(fresh: Server) -> None:
    document = Api(fresh.http_port, below="").get("/openapi.json")
    listed = {(method, path): who for method, path, who in ROW.findall(PAGE)}
    served = {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert listed.keys() == served.keys()
    for key, operation in served.items():
        assert ("without a name" in listed[key]) == (operation["security"] == []), key
        for right in ("admin", "configure"):
            if (
                f"the role {right}." in operation["description"]
                or f"permission {right} on" in operation["description"]
            ):
                assert right in listed[key], key


def test_the_page_lists_every_problem_with_its_status() -> None:
    kinds = [kind for kind in vars(problems).values() if isinstance(kind, problems.Kind)]
    rows = dict(re.findall(r"^\| (\d{3}) \| (.+) \|$", PAGE, re.MULTILINE))
    assert {str(kind.status) for kind in kinds} == rows.keys()
    for kind in kinds:
        assert f"`{kind.word}`" in rows[str(kind.status)], kind.word


def test_the_page_lists_every_series(fresh: Server) -> None:
    text = Api(fresh.http_port, below="").text("/metrics")
    families = {family.name: family.type for family in text_string_to_metric_families(text)}
    table = PAGE.partition("| series |")[2].partition("\n\n")[0]
    listed = {name.removesuffix("_total") for name in re.findall(r"`(headwater_\w+)`", table)}
    assert listed == {name for name in families if name.startswith("headwater_")}
    assert f"{LOGS_MAX:,} logs" in table
    assert f"beyond {CONSUMERS_MAX:,} of them" in table


def test_settings_and_bounds_are_those_of_the_server() -> None:
    known = {each.name for each in describe()}
    named = set(re.findall(r"`((?:http|tls|sasl|log)_[a-z_]+)`", PAGE))
    assert named <= known
    assert {name for name in known if name.startswith("http_")} - named == {"http_port", "http_tls_port"}
    for sentence in (
        f"port {Settings().http_port}",
        f"port {Settings().http_tls_port}",
        f"{BODY_BYTES_MAX // 1024} KiB",
        f"{BODY_TIMEOUT_S:g} seconds",
        f"{HEADERS_MAX} headers",
        f"`limit` ({Page().limit}, at most {PAGE_ITEMS_MAX})",
    ):
        assert sentence in PAGE, sentence
