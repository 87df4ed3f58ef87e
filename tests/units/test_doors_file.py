"""`doors.json`: who serves a folder says where, and is believed only while it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.server.doors_file import Doors, forget_doors, read_doors, write_doors


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:8080"),
        ("::1", "http://[::1]:8080"),
        ("192.0.2.1", "http://192.0.2.1:8080"),
    ],
)
def test_what_listens_everywhere_is_reached_on_this_machine(tmp_path: Path, host: str, url: str) -> None:
    write_doors(tmp_path, host, 8080)
    assert read_doors(tmp_path, os.getpid()) == Doors(os.getpid(), url)


def test_only_the_process_that_holds_the_folder_is_believed(tmp_path: Path) -> None:
    write_doors(tmp_path, "127.0.0.1", 8080)
    assert read_doors(tmp_path, os.getpid() + 1) is None
    assert read_doors(tmp_path, None) is None


def test_nothing_is_known_of_a_folder_that_nobody_serves(tmp_path: Path) -> None:
    forget_doors(tmp_path)
    assert read_doors(tmp_path, os.getpid()) is None
    write_doors(tmp_path, "127.0.0.1", 8080)
    forget_doors(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff", b"{" * 10_000])
def test_a_file_that_says_nothing_of_the_kind_is_passed_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "doors.json").write_bytes(content)
    assert read_doors(tmp_path, os.getpid()) is None
