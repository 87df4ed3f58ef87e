"""The commit kernel where it was compiled, its Python twin where not."""

from __future__ import annotations

try:
    from headwater.log._commit_kernel import NativeWrite, serve, write_and_sync
except ImportError:
    from headwater.log.commit_twin import NativeWrite, serve, write_and_sync  # type: ignore[assignment]

__all__ = ["NativeWrite", "serve", "write_and_sync"]
