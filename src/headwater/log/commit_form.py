"""The commit kernel where it was compiled, its Python twin where not."""

from __future__ import annotations

try:
    from headwater.log._commit_kernel import WriteQueue, write_and_sync
except ImportError:
    from headwater.log.commit_twin import WriteQueue, write_and_sync  # type: ignore[assignment]

__all__ = ["WriteQueue", "write_and_sync"]
