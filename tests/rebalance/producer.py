"""A producer on a thread: numbered messages to its partitions, of which it notes what was confirmed."""

from __future__ import annotations

import threading

from headwater.amqp.definitions import Role
from headwater.amqp.messaging import Accepted, Source, Target
from headwater.encoding.amqp_types import Symbol
from tests.conformance.amqp_wire import AmqpWire, data, opened_amqp, transfer
from tests.conformance.group_links import PARTITION
from tests.peers.servers import HOST
from tests.rebalance.history import History
from tests.rebalance.lives import Lives
from tests.rebalance.member import LOG

__all__ = ["Producer"]

BATCH = 10


class Producer(threading.Thread):
    """Sends one batch to each partition in turn; what was not confirmed when the server went is not sent again."""

    def __init__(self, partitions: list[int], pause_s: float, server: Lives, history: History) -> None:
        super().__init__(name=f"producer of {partitions}", daemon=True)
        self.ends = threading.Event()
        self._partitions = partitions
        self._pause_s = pause_s
        self._server = server
        self._history = history
        self._sequence = 0

    def run(self) -> None:
        try:
            while not self.ends.is_set():
                try:
                    with opened_amqp(HOST, self._server.port) as wire:
                        self._publish(wire)
                except (OSError, AssertionError) as error:
                    if not (isinstance(error, OSError) or "the connection ended" in str(error)):
                        raise
                    self.ends.wait(0.05)
        except BaseException as error:
            self._history.fault(f"{self.name}: {error!r}")
            raise

    def _publish(self, wire: AmqpWire) -> None:
        for handle, partition in enumerate(self._partitions):
            bound = {PARTITION: Symbol(str(partition))}
            answer = wire.attach(Role.SENDER, Source(), Target(LOG), handle=handle, properties=bound)
            assert answer.target is not None, f"{answer}"
            wire.next()
        id_ = 0
        while not self.ends.is_set():
            for handle, partition in enumerate(self._partitions):
                bodies = [b"%d %d" % (partition, self._sequence + number) for number in range(BATCH)]
                self._sequence += BATCH
                ids = range(id_, id_ + BATCH)
                wire.send(
                    b"".join(
                        transfer(each, data(body), handle) for each, body in zip(ids, bodies, strict=True)
                    )
                )
                states = wire.outcomes(ids)
                assert set(map(type, states.values())) == {Accepted}, states
                self._history.confirms(partition, bodies)
                id_ += BATCH
            self.ends.wait(self._pause_s)
