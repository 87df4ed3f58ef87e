"""Permissions: regular expressions on the names of logs, one each for configuring, writing and reading."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from headwater.server.security.name_pattern import NAME_BYTES_MAX, compile_pattern

__all__ = ["ALL", "NONE", "Permission", "Right"]


class Right(enum.StrEnum):
    """What can be done with a log."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Permission:
    """What one user may do in one vhost; an expression must match a whole name, an empty one matches none."""

    configure: str = ""
    write: str = ""
    read: str = ""

    def __post_init__(self) -> None:
        """Refuse an expression that cannot be used, by `InvalidPattern`."""
        for right in Right:
            compile_pattern(self.pattern(right))

    def pattern(self, right: Right) -> str:
        """The expression of a right."""
        match right:
            case Right.CONFIGURE:
                return self.configure
            case Right.WRITE:
                return self.write
            case Right.READ:
                return self.read

    def allows(self, right: Right, name: str) -> bool:
        """Whether the right covers a log of this name."""
        if not name or len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
            return False
        return compile_pattern(self.pattern(right)).matches(name)


ALL = Permission(".*", ".*", ".*")
NONE = Permission()
