"""Consumers to be stopped by SIGSTOP: `python -m tests.conformance.stopped_consumers PORT COUNT STREAM`."""

from __future__ import annotations

import sys
import threading

from headwater.server.streams.consuming import CREDIT_MAX
from headwater.streams.commands import OffsetSpecification, OffsetType
from tests.conformance.wire import Wire, opened

HOST = "127.0.0.1"


def main() -> None:
    """Subscribe with all the credit there can be, say so, and read until the process is stopped."""
    port, count, stream = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    wires = [opened(HOST, port) for _ in range(count)]
    for wire in wires:
        wire.subscribe(1, stream, OffsetSpecification(OffsetType.NEXT), CREDIT_MAX)
    readers = [threading.Thread(target=_read, args=(wire,)) for wire in wires]
    for reader in readers:
        reader.start()
    print("ready", flush=True)
    for reader in readers:
        reader.join()


def _read(wire: Wire) -> None:
    while wire.discard():
        pass


if __name__ == "__main__":
    main()
