"""Log lines on standard error: plain ones for people, JSON ones for programs; always one line per record."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Literal

import msgspec

__all__ = ["JsonFormatter", "PlainFormatter", "configure"]

LogFormat = Literal["plain", "json"]
AUDIT = "audit"


def configure(log_format: LogFormat, log_level: str) -> None:
    """Send all log records of the process to standard error, in the form asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else PlainFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(log_level.upper())
    logging.getLogger("headwater.audit").setLevel(
        logging.INFO
    )  # who changed what is kept, however quiet the rest


class PlainFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z info message`; what a peer put into a message cannot begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname.lower()} {_one_line(record.getMessage())}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message; a change's fields, and the traceback when there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if audit := getattr(record, AUDIT, None):
            fields[AUDIT] = audit
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
