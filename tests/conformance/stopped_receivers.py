"""Receivers to be stopped by SIGSTOP: `python -m tests.conformance.stopped_receivers PORT COUNT LOG`."""

from __future__ import annotations

import sys
import threading

from tests.conformance.amqp_wire import AmqpWire, opened_amqp

HOST = "127.0.0.1"
CREDIT = 65_535


def main() -> None:
    """Attach, give all the credit that tools give, say so, and take what comes until stopped."""
    port, count, log = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    wires = [opened_amqp(HOST, port) for _ in range(count)]
    for wire in wires:
        wire.receiver(log, credit=CREDIT, filter=None)
        wire.assert_nothing_came()
    print("ready", flush=True)
    threads = [threading.Thread(target=_discard, args=(wire,)) for wire in wires]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _discard(wire: AmqpWire) -> None:
    while wire.discard():
        pass


if __name__ == "__main__":
    main()
