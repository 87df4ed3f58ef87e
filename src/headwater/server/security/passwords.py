"""Checks of passwords: on a thread, since they are slow on purpose, and remembered for a while when they succeed."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from headwater.encoding.scram import Verifier, derive

__all__ = ["PasswordChecker", "TooManyChecks"]

CHECKS_WAITING_MAX = 256


class TooManyChecks(Exception):
    """More passwords wait to be checked than may wait."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    verifier: Verifier
    digest: bytes = field(repr=False)
    until: float


class PasswordChecker:
    """Holds passwords to verifiers; what it remembers is a keyed hash, and lapses when the verifier changes."""

    def __init__(
        self,
        *,
        remembered_max: int = 1000,
        remembered_s: float = 300,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._remembered_max = remembered_max
        self._remembered_s = remembered_s
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._remembered: dict[str, _Remembered] = {}
        self._waiting = 0
        self.derived_count = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="passwords")

    async def check(self, user: str, verifier: Verifier, password: str) -> bool:
        """Whether this is the user's password; raises `TooManyChecks` when the queue is full."""
        digest = hmac.digest(self._key, f"{user}\0{password}".encode(), "sha256")
        if self._remembers(user, verifier, digest):
            return True
        if self._waiting >= CHECKS_WAITING_MAX:
            raise TooManyChecks
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._derive_and_compare, user, verifier, password, digest
            )
        finally:
            self._waiting -= 1

    @property
    def remembered_s(self) -> float:
        """How long a right password is remembered; 0 if none is."""
        return self._remembered_s if self._remembered_max else 0.0

    def close(self) -> None:
        """End the thread; what waits is not checked any more."""
        self._thread.shutdown(cancel_futures=True)

    def _derive_and_compare(self, user: str, verifier: Verifier, password: str, digest: bytes) -> bool:
        # Many connections of one user may come at once: the first of them answers for those behind it.
        if self._remembers(user, verifier, digest):
            return True
        self.derived_count += 1
        self._remembered.pop(user, None)
        derived = derive(password, verifier.salt, verifier.iterations)
        is_right = hmac.compare_digest(derived.stored_key, verifier.stored_key)
        if is_right:
            self._remember(user, _Remembered(verifier, digest, self._clock() + self._remembered_s))
        return is_right

    def _remembers(self, user: str, verifier: Verifier, digest: bytes) -> bool:
        known = self._remembered.get(user)
        if known is None or known.verifier != verifier or known.until <= self._clock():
            return False
        return hmac.compare_digest(known.digest, digest)

    def _remember(self, user: str, remembered: _Remembered) -> None:
        # On the one thread alone, as every change of what is remembered; the loop only looks.
        if self._remembered_max:
            while len(self._remembered) >= self._remembered_max:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[user] = remembered
