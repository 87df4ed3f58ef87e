"""CloudEvents HTTP binding, section 3.1.3.2: texts in header values, which NATS has, too."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

from headwater.errors import InvalidCloudEvent

__all__ = ["from_header", "to_header"]

_PRINTABLE = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def to_header(text: str) -> str:
    """The text with all but printable ASCII percent-encoded, and space, quotation mark and percent sign as well."""
    return quote(text, safe=_PRINTABLE)


def from_header(name: str, value: str) -> str:
    """The text of an attribute that a header value stands for; raises InvalidCloudEvent if it is no UTF-8."""
    value = value.strip(" \t")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = _ESCAPED.sub(r"\1", value[1:-1])
    if "%" not in value and value.isascii():
        return value
    try:
        # Bytes that are no ASCII come out of a header as surrogates.
        return str(unquote_to_bytes(value.encode("utf-8", "surrogateescape")), "utf-8")
    except UnicodeError:
        raise InvalidCloudEvent(name, "is no UTF-8 when it is percent-decoded") from None
