"""Settings of logs as users give and see them: the fields of `LogSettings`, less those that are the server's own."""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.errors import InvalidSettings
from headwater.log.settings import LogSettings
from headwater.server.management.logs import SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from headwater.server.management.viewer import Viewer

__all__ = ["SettingsGiven", "SettingsShown", "changed_settings", "dead_letters_refused", "shown_settings"]

INTERNAL = frozenset(
    {"snapshot_interval_bytes", "chunk_data_bytes_max", "commit_bytes_max", "entry_bytes_max"}
)
"""How the log does its work: nothing that a user of a log should have to know, or could set without harm to others."""

_FIELDS = {
    field.encode_name: field for field in msgspec.structs.fields(LogSettings) if field.name not in INTERNAL
}

SettingsGiven: Any = msgspec.defstruct(
    "SettingsGiven",
    [(name, field.type | msgspec.UnsetType, msgspec.UNSET) for name, field in _FIELDS.items()],
    frozen=True,
    forbid_unknown_fields=True,
)
"""What is left out stays as it is; null is no bound, where that may be."""

SettingsShown: Any = msgspec.defstruct(
    "SettingsShown", [(name, field.type) for name, field in _FIELDS.items()], frozen=True
)


def changed_settings(settings: LogSettings, given: msgspec.Struct) -> LogSettings:
    """The settings with what is given in place of what they have; raises `InvalidSettings`."""
    changes = {
        name: value for name, value in msgspec.structs.asdict(given).items() if value is not msgspec.UNSET
    }
    changed = LogSettings(**{**msgspec.structs.asdict(settings), **changes})
    is_same = changed.segment_bytes == settings.segment_bytes
    if not (is_same or SEGMENT_BYTES_MIN <= changed.segment_bytes <= SEGMENT_BYTES_MAX):
        bounds = f"{SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"
        raise InvalidSettings("segment_bytes", f"{changed.segment_bytes} is not {bounds}")
    return changed


def dead_letters_refused(viewer: Viewer, vhost: str, name: str, settings: LogSettings) -> str | None:
    """Why this user may not have dead letters of a log go where the settings say, if that is so.

    Whoever has the server carry messages from one log to another may do it without the server, too.
    """
    target = settings.dead_letter_log
    if target is None:
        return None
    user, access = viewer.identity, viewer.access
    if not access.may_read(user, vhost, name):
        return f"user {user.user!r} may not read {name!r}, which its dead letters come from"
    if not access.may_write(user, vhost, target):
        return f"user {user.user!r} may not write to {target!r}, where dead letters are to go"
    return None


def shown_settings(settings: LogSettings) -> Any:  # noqa: ANN401 - the class is made at run time
    """All that a user may set, as it is."""
    return SettingsShown(**{field.name: getattr(settings, field.name) for field in _FIELDS.values()})
