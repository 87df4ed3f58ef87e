"""The audit log: one line for every change that somebody made or tried to make, whichever door they came by."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

__all__ = ["Outcome", "note_change"]

logger = logging.getLogger("headwater.audit")

Outcome = int | str
"""A status code, or a word of the door's protocol."""

VALUE_CHARS_MAX: Final = 1000
NOBODY: Final = "-"


def note_change(user: str, peer: str, door: str, action: str, outcome: Outcome, *, changed: str = "") -> None:
    """Note who asked from where, at which door, for what, and what came of it; `changed` never holds a secret."""
    fields: dict[str, Outcome] = {
        "user": user or NOBODY,
        "peer": peer or NOBODY,
        "door": door,
        "action": action[:VALUE_CHARS_MAX],
        "outcome": outcome,
    }
    if changed:
        fields["changed"] = changed[:VALUE_CHARS_MAX]
    line = " ".join(f"{name}={_value(value)}" for name, value in fields.items())
    logger.info("audit %s", line, extra={"audit": fields})


def _value(value: Outcome) -> str:
    """A word as it is; whatever else, such as what a peer made up, in quotes that it cannot end."""
    text = str(value)
    is_word = text.isascii() and all(char.isalnum() or char in "-_.:/[]" for char in text)
    return text if is_word and text else msgspec.json.encode(text).decode()
