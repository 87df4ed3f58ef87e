"""The mutation loop: valid inputs, changed a little and again, until a count or a time is reached."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz.targets import Target

__all__ = ["CORPUS_MAX", "INPUT_BYTES_MAX", "Outcome", "execute", "fuzz", "save"]

CORPUS_MAX = 500
INPUT_BYTES_MAX = 4096
_EXTREMES = tuple(
    bytes.fromhex(text)
    for text in (
        "00",
        "7f",
        "80",
        "ff",
        "ffff",
        "7fff",
        "8000",
        "80000000",
        "ffffffff",
        "7fffffff",
        "00000000",
    )
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to; `failure` is an input that broke the target, with its error."""

    executions: int
    accepted: int
    failure: tuple[bytes, Exception] | None = None


def fuzz(target: Target, seed: int, executions_max: int, seconds_max: float) -> Outcome:
    """Run a target on mutated inputs until one breaks it, or a bound is reached; one seed gives one sequence."""
    ends = time.monotonic() + seconds_max
    executions = accepted = 0
    for data, keep in _inputs(target, random.Random(f"{seed} {target.name}"), executions_max):
        if executions % 64 == 0 and time.monotonic() > ends:
            break
        executions += 1
        try:
            parsed = execute(target, data)
        except Exception as error:  # noqa: BLE001 - every class but the target's own is the finding
            return Outcome(executions, accepted, (data, error))
        if parsed:
            accepted += 1
            keep.append(data)
    return Outcome(executions, accepted)


def execute(target: Target, data: bytes) -> bool:
    """Whether the target parsed the bytes; raises what it must not raise."""
    try:
        target.run(data)
    except target.error:
        return False
    return True


def save(folder: Path, target: Target, data: bytes) -> Path:
    """Keep an input that broke a target; gives its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target.name}-{hashlib.sha256(data).hexdigest()[:12]}.bin"
    path.write_bytes(data)
    return path


def _inputs(target: Target, chance: random.Random, count: int) -> Iterator[tuple[bytes, list[bytes]]]:
    """Inputs, each with the list that takes those which parsed: they are what later ones grow from."""
    corpus = list(target.seeds)
    for number in range(count):
        if number < len(target.seeds):
            yield target.seeds[number], []
            continue
        kept: list[bytes] = []
        yield _mutated(chance.choice(corpus), corpus, chance), kept
        if kept and len(corpus) < CORPUS_MAX:
            corpus += kept
        elif kept:
            corpus[chance.randrange(len(target.seeds), CORPUS_MAX)] = kept[0]


def _mutated(data: bytes, corpus: list[bytes], chance: random.Random) -> bytes:
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        data = _mutated_once(data, corpus, chance)
    return data[:INPUT_BYTES_MAX]


def _mutated_once(data: bytes, corpus: list[bytes], chance: random.Random) -> bytes:
    at = chance.randint(0, len(data))
    match chance.randrange(8):
        case 0:  # one bit
            return (
                data[:at]
                + bytes(byte ^ 1 << chance.randrange(8) for byte in data[at : at + 1])
                + data[at + 1 :]
            )
        case 1:  # one byte
            return data[:at] + chance.randbytes(1) + data[at + 1 :]
        case 2:  # a value at the edge of its width
            extreme = chance.choice(_EXTREMES)
            return data[:at] + extreme + data[at + len(extreme) :]
        case 3:  # a byte a little larger or smaller
            return (
                data[:at]
                + bytes((byte + chance.randint(-4, 4)) % 256 for byte in data[at : at + 1])
                + data[at + 1 :]
            )
        case 4:  # cut
            return data[:at]
        case 5:  # a part taken out
            return data[:at] + data[at + chance.randint(1, 16) :]
        case 6:  # a part twice
            return data[: at + chance.randint(1, 64)] + data[at:]
        case _:  # the rest of another
            other = chance.choice(corpus)
            return data[:at] + other[chance.randint(0, len(other)) :]
