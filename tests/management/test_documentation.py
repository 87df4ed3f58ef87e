"""docs/management-api.md lists what there is, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from headwater.server.http.answers import BODY_TIMEOUT_S
from headwater.server.http.management.application import ROUTES
from headwater.server.http.management.call import BODY_BYTES_MAX

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "management-api.md").read_text("utf-8")
ROW = re.compile(r"^\| (GET|PUT|POST|DELETE) \| `(/\S+)` \|", re.MULTILINE)


def test_the_page_lists_every_endpoint_once() -> None:
    listed = ROW.findall(PAGE)
    assert sorted(listed) == sorted((route.method, route.path) for route in ROUTES)


def test_the_page_says_the_bounds() -> None:
    assert f"{BODY_BYTES_MAX // 1024} KiB" in PAGE
    assert f"{BODY_TIMEOUT_S:g} seconds" in PAGE
