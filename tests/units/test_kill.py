"""A process killed with signal 9, again and again on one folder: what it confirmed is there."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from headwater.log.store import Store
from tests.simulation.payloads import split_entries
from tests.simulation.rig import damage_of, read_chunks
from tests.units.confirming_child import LOG, REFERENCE, entry_of

CHILD = Path(__file__).with_name("confirming_child.py")
ROUNDS = 20
SECONDS_MAX = 0.15


def confirmed_until_killed(folder: Path, rng: random.Random) -> list[tuple[int, int, int]]:
    """Partition, offset and number of everything that one run confirmed before it was killed."""
    command = [sys.executable, str(CHILD), str(folder), "1000000", "5", rng.choice("18")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(rng.uniform(0, SECONDS_MAX))
        child.send_signal(signal.SIGKILL)
        lines = [first, *child.stdout.readlines()]
    assert child.returncode == -signal.SIGKILL
    whole = [line.split() for line in lines if line.startswith(b"confirmed") and line.endswith(b"\n")]
    assert all(line.startswith(b"confirmed") for line in lines[:-1])
    return [(int(partition), int(offset), int(number)) for _, partition, offset, number in whole]


def test_everything_confirmed_survives_kill_9(tmp_path: Path) -> None:
    rng = random.Random(9)
    confirmed: dict[tuple[int, int], int] = {}
    for _ in range(ROUNDS):
        for partition, offset, number in confirmed_until_killed(tmp_path, rng):
            assert confirmed.setdefault((partition, offset), number) == number
        store = Store.open(tmp_path)
        for index, log_partition in enumerate(store.log(LOG).partitions):
            assert damage_of(log_partition) is None
            seen = [data for chunk in read_chunks(log_partition, 0) for data, _ in split_entries(chunk)]
            assert seen == [entry_of(number + 1) for number in range(len(seen))]
            assert (log_partition.sequence(REFERENCE) or 0) == len(seen)
            for (partition, offset), number in confirmed.items():
                assert partition != index or seen[offset] == entry_of(number)
        store.close()
    assert len(confirmed) > ROUNDS
