"""`headwater demo` shows what it says: an event of curl at all doors, and nothing lost."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here")
def test_the_demo_shows_an_event_of_curl_to_all_clients_and_theirs_to_curl() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", "demo", "--seconds", "0.1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for said in (
        '{"events":[{"partition":"0","offset":0}]}',
        "a stream client reads it:  com.example.refund from /till/3",
        "an AMQP 1.0 client reads it:  com.example.refund from /till/3",
        '"source": "/streams/bookkeeping"',
        '"source": "/amqp/warehouse"',
        "0 of the confirmed ones lost",
        "nothing is damaged",
    ):
        assert said in done.stdout
