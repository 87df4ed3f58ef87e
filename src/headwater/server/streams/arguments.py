"""RabbitMQ Streams protocol, Create: what the arguments of clients mean for a log."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from headwater.errors import InvalidSettings
from headwater.log.settings import LogSettings
from headwater.server.management.logs import SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN

__all__ = ["NUMBERS", "age_ms", "known_arguments", "log_settings"]

NUMBERS = frozenset(
    {"max-length-bytes", "stream-max-segment-size-bytes", "stream-filter-size-bytes", "initial-cluster-size"}
)
"""Arguments that are whole numbers, in decimal digits."""

_KNOWN = NUMBERS | {"max-age", "queue-leader-locator"}
NUMBER_DIGITS_MAX = 19
LEADER_LOCATORS = frozenset({"client-local", "balanced", "random", "least-leaders"})

_UNIT_MS = {
    "Y": 31_536_000_000,
    "M": 2_592_000_000,
    "D": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
}
_AGE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)([YMDhms])")


def log_settings(arguments: Mapping[str, str]) -> LogSettings:
    """The settings that these arguments ask for; unknown ones are let pass, wrong ones raise `InvalidSettings`."""
    settings = LogSettings()
    if "max-length-bytes" in arguments:
        settings = _with(settings, max_bytes=_number(arguments, "max-length-bytes", 1, 2**62))
    if arguments.get("max-age"):
        settings = _with(settings, max_age_ms=age_ms(arguments["max-age"]))
    if "stream-max-segment-size-bytes" in arguments:
        wanted = _number(arguments, "stream-max-segment-size-bytes", 1, 2**62)
        bounded = min(max(wanted, SEGMENT_BYTES_MIN), SEGMENT_BYTES_MAX)
        settings = _with(settings, segment_bytes=bounded)
    if "stream-filter-size-bytes" in arguments:
        settings = _with(settings, filter_bytes=_number(arguments, "stream-filter-size-bytes", 16, 255))
    locator = arguments.get("queue-leader-locator")
    if locator is not None and locator not in LEADER_LOCATORS:
        raise InvalidSettings("queue-leader-locator", f"{locator!r} is none of {sorted(LEADER_LOCATORS)}")
    if "initial-cluster-size" in arguments:
        _number(arguments, "initial-cluster-size", 1, 2**31)
    return settings


def known_arguments(arguments: Mapping[str, str]) -> dict[str, str]:
    """Those that mean something here, as they were given."""
    return {name: value for name, value in arguments.items() if name in _KNOWN}


def age_ms(text: str) -> int:
    """A span such as `7D` or `1.5h` in milliseconds."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise InvalidSettings("max-age", f"{text!r} is no number with one of the units Y M D h m s")
    return max(1, int(float(match[1]) * _UNIT_MS[match[2]]))


def _with(settings: LogSettings, **changes: int) -> LogSettings:
    changed = msgspec.structs.replace(settings, **changes)
    return LogSettings(**msgspec.structs.asdict(changed))


def _number(arguments: Mapping[str, str], name: str, low: int, high: int) -> int:
    text = arguments[name]
    is_number = text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
    if not is_number or not low <= int(text) <= high:
        raise InvalidSettings(name, f"{text!r} is no whole number from {low} to {high}")
    return int(text)
