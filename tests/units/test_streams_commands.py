"""Keys and codes have the numbers of the specification, and commands are values."""

from __future__ import annotations

import pytest

from headwater.streams import commands
from headwater.streams.commands import Command, DeleteRequest, Key, OffsetType, ResponseCode


@pytest.mark.clause("SP-1")
def test_keys_and_codes_have_no_gaps() -> None:
    assert [int(key) for key in Key] == list(range(0x01, 0x20))
    assert [int(code) for code in ResponseCode] == list(range(0x01, 0x14))
    assert [int(kind) for kind in OffsetType] == list(range(6))


def test_every_command_is_public() -> None:
    kinds = {
        name for name, kind in vars(commands).items() if isinstance(kind, type) and issubclass(kind, Command)
    }
    assert kinds <= set(commands.__all__)


def test_commands_are_frozen_values() -> None:
    command = DeleteRequest(1, "s")
    assert command == DeleteRequest(1, "s")
    with pytest.raises(AttributeError):
        command.stream = "t"  # type: ignore[misc]
