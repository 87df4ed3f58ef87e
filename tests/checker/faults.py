"""What is done to a run while it goes on; every decision is the seed's, the moments are those of the machine."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator

from tests.checker.board import UNKNOWN, Board, Phase, ServerAddress
from tests.checker.clients import ClientProcesses
from tests.checker.history import ClientKilled, Event, ServerEnded, ServerStarted, now
from tests.checker.plan import IN_FLIGHT_WANTED, Plan, unconfirmed_gauge
from tests.checker.server import PORT_TRIES_MAX, ServerFailed, ServerProcess
from tests.checker.verify import RUNNER

__all__ = ["Faults"]

LISTENING = "listening amqp"
OPENED = "opened"
FILL_MAX_S = 60.0
LOOK_S = 0.005
KILL_AFTER_THAW_S = (0.0, 0.06)
SERVER_FREEZE_S = (0.05, 1.5)
CLIENT_FREEZE_S = (0.1, 1.5)
PAUSE_S = (0.1, 1.2)
RECOVERY_KILLS = (0, 0, 1, 2)
START_GUESS_S = 0.7


class Faults:
    """Draws one fault after the other from a deck, so that a short run has each of them too."""

    def __init__(
        self,
        plan: Plan,
        board: Board,
        server: ServerProcess,
        clients: ClientProcesses,
        record: Callable[[Event], None],
    ) -> None:
        self.count: Counter[str] = Counter()
        """How often each fault was done."""
        self.in_flight_max = 0
        """The most records that were unconfirmed when the server was killed."""
        self._plan = plan
        self._board = board
        self._server = server
        self._clients = clients
        self._record = record
        self._rng = random.Random(f"faults {plan.seed}")
        self._opening_s = START_GUESS_S
        """From the start of the process until its data folder is open, as it was last."""
        self._kinds = {
            "kill under load": self._kill_under_load,
            "kill": self._kill,
            "stop": self._stop,
            "freeze the server": self._freeze_server,
            "freeze a client": self._freeze_client,
            "freeze a member for long": self._freeze_member,
            "kill a client": self._kill_client,
            "kill a member": self._kill_member,
        }
        self._weights = {"kill under load": 3, "kill": 2}

    def run_for(self, seconds: float) -> None:
        """Do faults until the time is over; raises what a failed server or client raises."""
        deadline = time.monotonic() + seconds
        for kind in self._deck():
            self._pause(self._rng.uniform(*PAUSE_S))
            if time.monotonic() >= deadline:
                break
            self._kinds[kind]()
            self.count[kind] += 1
        self._clients.thaw(all_of_them=True)

    def start_server(self) -> None:
        """Begin a life of the server, and wait until it listens."""
        for _ in range(PORT_TRIES_MAX):
            self._begin_life()
            if self._server.wait_for(LISTENING):
                return
        raise ServerFailed(f"no port was free {PORT_TRIES_MAX} times")

    def stop_server(self) -> None:
        """SIGTERM: the server must end with code 0."""
        self._end_life("term", signal.SIGTERM)
        if code := self._server.wait():
            raise ServerFailed(f"life {self._server.life} ended with {code} on SIGTERM")

    def _deck(self) -> Iterator[str]:
        """All faults in some order, again and again; the one that matters most comes first."""
        yield "kill under load"
        while True:
            deck = [kind for kind in self._kinds for _ in range(self._weights.get(kind, 1))]
            self._rng.shuffle(deck)
            yield from deck

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._clients.check()
            self._clients.thaw()
            time.sleep(LOOK_S)

    # The server

    def _kill_under_load(self) -> None:
        """Let everybody fill a window while the server is frozen, then kill it while it takes all this in."""
        self._clients.thaw(all_of_them=True)
        self._wait_until(lambda: UNKNOWN not in self._unconfirmed())
        self._board.phase = Phase.BURST
        self._server.signal(signal.SIGSTOP)
        self._wait_until(lambda: self._in_flight() >= IN_FLIGHT_WANTED)
        self._server.signal(signal.SIGCONT)
        time.sleep(self._rng.uniform(*KILL_AFTER_THAW_S))
        self._kill()
        self._board.phase = Phase.PACED

    def _kill(self) -> None:
        self._end_life("kill", signal.SIGKILL)
        self._server.wait()
        for _ in range(self._rng.choice(RECOVERY_KILLS)):
            self._kill_in_recovery()
        self.start_server()

    def _kill_in_recovery(self) -> None:
        """Kill it again at some moment from the start of the process to a little after it listens."""
        self._begin_life()
        began = time.monotonic()
        when = self._rng.choice(("anywhere", "opening", "opened", "listening"))
        if when == "anywhere":
            time.sleep(self._rng.uniform(0, 1.2 * self._opening_s))
        elif when == "opening":
            # Imports take most of a start; recovery is the end of this time.
            time.sleep(max(0.0, self._opening_s - self._rng.uniform(0, 0.1)))
        elif self._server.wait_for(OPENED if when == "opened" else LISTENING):
            self._opening_s = time.monotonic() - began
            time.sleep(self._rng.uniform(0, 0.02))
        if not self._server.has_ended():
            self._end_life("kill in recovery", signal.SIGKILL)
            self._server.wait()
            self.count["kill in recovery"] += 1

    def _stop(self) -> None:
        self.stop_server()
        self.start_server()

    def _freeze_server(self) -> None:
        self._server.signal(signal.SIGSTOP)
        self._pause(self._rng.uniform(*SERVER_FREEZE_S))
        self._server.signal(signal.SIGCONT)

    def _begin_life(self) -> None:
        self._server.begin()
        # Clients learn of the port at once, so that they knock while the server is not there yet.
        self._board.address = ServerAddress(self._server.life, self._server.port, self._server.amqp_port)
        self._record(ServerStarted(RUNNER, now(), self._server.life))

    def _end_life(self, how: str, number: signal.Signals) -> None:
        in_flight = self._in_flight()
        self._record(ServerEnded(RUNNER, now(), self._server.life, how, in_flight))
        self._server.signal(number)
        if number is signal.SIGKILL:
            self.in_flight_max = max(self.in_flight_max, in_flight)

    def _in_flight(self) -> int:
        return sum(count for count in self._unconfirmed() if count != UNKNOWN)

    def _unconfirmed(self) -> list[int]:
        """Of each publisher; those that are not connected do not know."""
        return [self._board[unconfirmed_gauge(publisher.number)] for publisher in self._plan.publishers]

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for what a slow machine may not come to: then the fault is done as it is."""
        deadline = time.monotonic() + FILL_MAX_S
        while not condition() and time.monotonic() < deadline:
            self._pause(LOOK_S)

    # Clients

    def _freeze_client(self) -> None:
        self._clients.freeze(self._rng.choice(self._plan.processes), self._rng.uniform(*CLIENT_FREEZE_S))

    def _freeze_member(self) -> None:
        """For so long that the server gives it up: a connection that is open at one end alone."""
        seconds = self._plan.heartbeat_s * self._rng.uniform(1.5, 3)
        self._clients.freeze(self._rng.choice(self._plan.members), seconds)

    def _kill_client(self) -> None:
        others = [name for name in self._plan.processes if name not in self._plan.members]
        self._kill_and_begin(self._rng.choice(others))

    def _kill_member(self) -> None:
        self._kill_and_begin(self._rng.choice(self._plan.members))

    def _kill_and_begin(self, name: str) -> None:
        self._record(ClientKilled(name, now()))
        self._clients.kill(name)
        for publisher in self._plan.publishers:
            if publisher.process == name:
                self._board[unconfirmed_gauge(publisher.number)] = UNKNOWN
        self._pause(self._rng.uniform(0, 1))
        self._clients.begin(name)
