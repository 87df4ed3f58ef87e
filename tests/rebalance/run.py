"""A rebalance under load: `python -m tests.rebalance.run --seed 7 --seconds 60 --binding dynamic --kills`.

Eight containers consume twelve partitions in one group. They come, go and are killed while producers run; at the end
they stay until all that was confirmed is settled, and then everything is verified.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proton.utils import BlockingConnection

from headwater.encoding.amqp_types import Symbol
from tests.conformance.amqp_wire import opened_amqp
from tests.conformance.group_links import close_link, in_group, join
from tests.peers.servers import COMMAND, HOST, Server
from tests.peers.test_event_streams_proton import make_log
from tests.rebalance.history import History
from tests.rebalance.lives import Lives
from tests.rebalance.member import GROUP, LOG, Member, Plan
from tests.rebalance.producer import Producer
from tests.rebalance.verify import Kind, Violation, verify

__all__ = ["BINDINGS", "Binding", "Report", "run"]

MEMBERS, PARTITIONS, PRODUCERS = 8, 12, 2
PRODUCER_PAUSE_S = 0.03
PATIENT_MS, HASTY_MS = 60_000, 20
"""How long a partition that moves waits for its owner; if hardly, who settles second alone knows what is settled."""
DRAIN_MAX_S = 60.0
LOOK_S = 0.05
KILL_AFTER_S = (1.0, 4.0)
COMPLAINT = re.compile(r"Traceback| (error|critical) ")
"""Of the server: no member gives it a reason for that."""

Binding = Literal["assign", "dynamic"]
BINDINGS: tuple[Binding, ...] = ("assign", "dynamic")


@dataclass(frozen=True)
class Report:
    """What a run came to."""

    seed: int
    binding: Binding
    confirmed: int
    deliveries: int
    repeats: int
    ends: dict[str, int]
    kills: int
    violations: list[Violation]

    def __str__(self) -> str:
        told = [f"  {each.kind.name}: {each.words}" for each in self.violations]
        head = (
            f"seed {self.seed}, {self.binding}: {self.confirmed} confirmed, {self.deliveries} deliveries,"
            f" {self.repeats} of them repeats, {self.kills} kills of the server, links ended: {self.ends}"
        )
        return "\n".join([head, *told])


def run(
    folder: Path,
    seed: int,
    seconds: float,
    binding: Binding,
    *,
    kills: bool = False,
    hastens: bool = False,
    command: Sequence[str] = COMMAND,
    drain_s: float = DRAIN_MAX_S,
) -> Report:
    """Carry out a run in an empty folder and verify it."""
    server = Server(folder / "data", command=command)
    server.start()
    try:
        return _run(server, seed, seconds, binding, kills=kills, hastens=hastens, drain_s=drain_s)
    finally:
        server.end()


def _run(
    server: Server, seed: int, seconds: float, binding: Binding, *, kills: bool, hastens: bool, drain_s: float
) -> Report:
    _make_group(server, binding, HASTY_MS if hastens else PATIENT_MS)
    history, lives = History(), Lives(server)
    plan = Plan(link_count=4 if binding == "assign" else 1, settles_second=kills or hastens)
    members = [Member(number, seed, plan, lives, history) for number in range(MEMBERS)]
    share = PARTITIONS // PRODUCERS
    producers = [
        Producer(list(range(first, first + share)), PRODUCER_PAUSE_S, lives, history)
        for first in range(0, PARTITIONS, share)
    ]
    threads = [*members, *producers]
    for thread in threads:
        thread.start()
    kill_count = _wait(lives, random.Random(f"{seed} kills"), seconds, kills=kills)
    for producer in producers:
        producer.ends.set()
        producer.join(drain_s)
    for member in members:
        member.stays.set()
    deadline = time.monotonic() + drain_s
    while history.open_count and not history.faults and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    for member in members:
        member.ends.set()
    for member in members:
        member.join(drain_s)
    violations = verify(history)
    violations += [Violation(Kind.FAULT, line) for line in server.lines if COMPLAINT.search(line)]
    if any(thread.is_alive() for thread in threads):
        violations.append(Violation(Kind.FAULT, "a thread did not end"))
    deliveries = sum(map(len, history.deliveries.values()))
    return Report(
        seed,
        binding,
        sum(map(len, history.confirmed.values())),
        deliveries,
        deliveries - len(history.deliveries),
        dict(history.ends),
        kill_count,
        violations,
    )


def _make_group(server: Server, binding: Binding, move_ms_max: int) -> None:
    """A log whose group stands at the beginning of each partition."""
    connection = BlockingConnection(f"amqp://guest:guest@{HOST}:{server.amqp_port}")
    make_log(
        connection,
        LOG,
        PARTITIONS,
        group_binding=binding,
        group_waiting="wait",
        group_move_ms_max=move_ms_max,
    )
    connection.close()
    with opened_amqp(HOST, server.amqp_port) as wire:
        for number in range(PARTITIONS):
            join(wire, LOG, in_group(GROUP, Symbol(str(number))), handle=number, credit=0)
        for number in range(PARTITIONS):
            close_link(wire, number)


def _wait(lives: Lives, rng: random.Random, seconds: float, *, kills: bool) -> int:
    """Let time pass, and kill the server now and then; gives how often."""
    deadline, count = time.monotonic() + seconds, 0
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, rng.uniform(*KILL_AFTER_S) if kills else left))
        if kills and time.monotonic() < deadline:
            lives.kill()
            count += 1
    return count


def main() -> int:
    """Zero if the run holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.rebalance.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--binding", choices=BINDINGS, default="dynamic")
    parser.add_argument("--kills", action="store_true", help="kill the server now and then")
    parser.add_argument("--hastens", action="store_true", help="partitions move though not all is settled")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwater-rebalance-") as folder:
        report = run(
            Path(folder),
            parsed.seed,
            parsed.seconds,
            parsed.binding,
            kills=parsed.kills,
            hastens=parsed.hastens,
        )
    print(report)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
