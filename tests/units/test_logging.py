"""Log lines: one per record, whatever the message holds."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from headwater.server.audit import note_change
from headwater.server.logging import JsonFormatter, PlainFormatter, configure


def record_of(message: str, *, with_error: bool = False) -> logging.LogRecord:
    error = None
    if with_error:
        try:
            raise ValueError("of this kind")
        except ValueError:
            error = sys.exc_info()
    record = logging.LogRecord("headwater.test", logging.WARNING, "test.py", 1, message, None, error)
    record.created = 0.25
    return record


def test_a_plain_line_holds_time_level_and_message() -> None:
    assert PlainFormatter().format(record_of("all is well")) == "1970-01-01T00:00:00.250Z warning all is well"


def test_a_plain_line_stays_one_line() -> None:
    line = PlainFormatter().format(record_of("a\r\n1970 error forged\x1b[2J ü"))
    assert line == "1970-01-01T00:00:00.250Z warning a\\r\\n1970 error forged\\x1b[2J ü"


def test_a_json_line_is_one_object() -> None:
    line = JsonFormatter().format(record_of('a\n"b"', with_error=True))
    assert "\n" not in line
    fields = json.loads(line)
    assert fields["message"] == 'a\n"b"'
    assert fields["level"] == "warning"
    assert "ValueError: of this kind" in fields["traceback"]


def test_a_change_is_noted_however_quiet_the_log_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, audit = logging.getLogger(), logging.getLogger("headwater.audit")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(audit, "level", audit.level)
    configure("json", "error")
    logging.getLogger("headwater.test").warning("not heard")
    note_change("ada", "127.0.0.1:1", "http", "DELETE /logs/a", 204, changed='with "quotes"\nand lines')
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["audit"] == {
        "user": "ada",
        "peer": "127.0.0.1:1",
        "door": "http",
        "action": "DELETE /logs/a",
        "outcome": 204,
        "changed": 'with "quotes"\nand lines',
    }
