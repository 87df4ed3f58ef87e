"""A server's consumers over crashes: the engine, a `$state` and a dead-letter log that may lose what they did not
confirm, partitions that come and go, retention, and consumers that do anything."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from headwater.engine.cursor import Cursor, CursorLimits
from headwater.engine.cursor_flushes import CursorFlushes, WaitOver
from headwater.engine.cursor_record import Position, decode_position
from headwater.engine.cursor_set import PartitionRun
from headwater.engine.delivery import DeadLetter, Outcome
from headwater.engine.group_effects import (
    Assigned,
    Attached,
    Evicted,
    GroupRefused,
    PartitionGone,
    Rebalanced,
    Revoked,
)
from headwater.engine.state_record import CURSOR, Delete, Put, cursor_key_parts, unowned
from headwater.engine.subscriptions import Refused, Stolen
from headwater.log.state import encode_record
from tests.simulation.consumer_account import Account, Disk, Message, latest_values

__all__ = ["FLUSH_MS", "LIMITS", "Died", "Node"]

LIMITS = CursorLimits(ranges_max=60, unsettled_max=80, delivery_count_max=2, keeps_rejected=True)
FLUSH_MS = 50
STEP_MS = 10
MEMBERS_MAX = 6
PARTITIONS_MAX = 5
BOUND = 1 << 31


class Died(Exception):
    """The machine died."""


class Node:
    """One log with one subscription, or group, which may end and be made anew."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.state: Disk[bytes] = Disk()
        self.letters: Disk[Message] = Disk()
        self.ends = dict.fromkeys((0, 1, 2), 0)
        self.retained = dict.fromkeys(self.ends, 0)
        self.number = 3
        self.now_ms = self.flushed_ms = 0
        self.is_calm = False
        self.next = 0
        self.members: set[str] = set()
        self.unanswered: set[str] = set()
        """Those whose attach is answered when it is on disk."""
        self.held: dict[str, set[Message]] = {}
        self.accounts: dict[int, Account] = {}
        self.account: Account | None = None
        self.crash_count = 0
        self.restart()

    # What a kind of owner does

    def engine(self) -> None:
        """Begin with an empty registry."""
        raise NotImplementedError

    def tag_of(self, value: bytes) -> int:
        """Which account the record of an owner is of."""
        raise NotImplementedError

    def restore(self, value: bytes, positions: dict[int, Position]) -> list[Any]:
        raise NotImplementedError

    def attach(self, member: str, tag: int) -> list[Any]:
        """An attach makes the owner, of this account, where there is none."""
        raise NotImplementedError

    def depart(self, member: str) -> list[Any]:
        raise NotImplementedError

    def end(self) -> list[Any]:
        raise NotImplementedError

    def change(self, firsts: dict[int, int]) -> list[Any]:
        raise NotImplementedError

    def take(self, credit: dict[str, int]) -> list[tuple[str, PartitionRun]]:
        raise NotImplementedError

    def settle(self, member: str, message: Message, outcome: Outcome) -> int:
        raise NotImplementedError

    def cursors(self) -> dict[int, Cursor[str]]:
        raise NotImplementedError

    def begin(self, partitions: tuple[int, ...]) -> list[Any]:
        """The owner has no position in these partitions."""
        raise NotImplementedError

    def is_served(self) -> bool:
        """Whether every partition has somebody who takes its messages."""
        raise NotImplementedError

    # What the shell does

    def restart(self) -> None:
        self.flushes: CursorFlushes[str, Callable[[], None]] = CursorFlushes()
        self.account = None
        self.engine()
        values = latest_values(self.state.records)
        owners = {key: value for key, value in values.items() if not key.startswith(CURSOR)}
        cursors = {key: value for key, value in values.items() if key.startswith(CURSOR)}
        self.did(unowned(cursors, [key.partition(b"/")[2] for key in owners]))
        for key, value in owners.items():
            self.account = self.accounts[self.tag_of(value)]
            positions = {
                cursor_key_parts(each)[1]: decode_position(cursors[each])
                for each in cursors
                if cursor_key_parts(each)[0] == key.partition(b"/")[2]
            }
            self.did(self.restore(value, positions))
        self.overtake()

    def overtake(self) -> None:
        """Retention may have gone on after the last positions were written."""
        for partition, cursor in self.cursors().items():
            cursor.overtake(self.retained[partition])

    def did(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Put(key=key, value=value):
                    self.state.records.append(encode_record(key, value))
                case Delete(key=key):
                    self.state.records.append(encode_record(key, None))
                case WaitOver(waited=waited):
                    for call in waited:
                        self.state.when_synced(call)
                case Attached(partition=int(partition)):
                    if effect.needs_start:
                        self.start((partition,))
                    self.owns(effect)
                case Assigned(needs_start=partitions):
                    self.start(partitions)
                case Revoked(member=member, partition=partition):
                    self.let_go(member, partition)
                case (
                    Rebalanced(member=member)
                    | GroupRefused(member=member)
                    | Evicted(member=member)
                    | PartitionGone(member=member)
                ):
                    self.gone(member)
                case Refused(consumer=member) | Stolen(consumer=member):
                    self.gone(member)
                case _:
                    pass

    def start(self, partitions: tuple[int, ...]) -> None:
        """The owner starts somewhere in these partitions; when that is on disk, it gets their messages."""
        account = self.account
        assert account is not None
        account.unready.update(partitions)
        self.did(self.begin(partitions))
        self.state.when_synced(lambda: account.unready.difference_update(partitions))

    def owns(self, attached: Attached[str]) -> None:
        """A link owns a partition of a group."""

    def gone(self, member: str) -> None:
        self.members.discard(member)
        self.unanswered.discard(member)
        held = self.held.pop(member, set())
        if held:
            assert self.account is not None
            self.account.vanish(held)

    def let_go(self, member: str, partition: int) -> None:
        """A member no longer has what it holds of a partition."""
        assert self.account is not None
        held = {each for each in self.held.get(member, ()) if each[0] == partition}
        self.held.get(member, set()).difference_update(held)
        self.account.vanish(held)

    def wait(self, partition: int, sequence: int, call: Callable[[], None]) -> None:
        """Call when a settlement is on disk."""
        for each in self.flushes.wait(self.cursors()[partition], sequence, call):
            each()

    # What happens

    def chance(self, of: float) -> bool:
        """Whether something bad happens that happens so often."""
        return not self.is_calm and self.random.random() < of

    def append(self) -> None:
        if self.ends:
            self.ends[self.random.choice(list(self.ends))] += self.random.randint(1, 20)

    def join(self) -> None:
        """The attach is answered when its records are durable, so before that nothing is delivered."""
        if len(self.members | self.unanswered) >= MEMBERS_MAX:
            return
        self.next += 1
        member = f"{'abcd'[self.next % 4]}{self.next}"
        if self.account is None:
            self.account = self.accounts[self.next] = Account()
        self.unanswered.add(member)
        self.did(self.attach(member, self.next))
        self.state.when_synced(lambda: self.answer_attach(member))
        if self.chance(0.1):
            raise Died
        if not self.chance(0.3):
            self.state.sync()

    def answer_attach(self, member: str) -> None:
        if member in self.unanswered:
            self.unanswered.remove(member)
            self.members.add(member)

    def vanish(self) -> None:
        if self.members or self.unanswered:
            member = self.random.choice(sorted(self.members | self.unanswered))
            self.gone(member)
            self.did(self.depart(member))

    def finish(self) -> None:
        """The subscription or group is wanted no more."""
        if self.account is not None and self.random.random() < 0.4:
            for member in sorted(self.members | self.unanswered):
                self.gone(member)
            self.did(self.end())
            self.account = None
            if self.chance(0.3):
                raise Died

    def deliver(self) -> None:
        credit = {member: self.random.randint(0, 12) for member in sorted(self.members)}
        for member, each in self.take(credit) if self.account is not None else ():
            assert self.account is not None
            assert each.run.end <= self.ends[each.partition]
            for offset in range(each.run.first, each.run.end):
                message = (each.partition, offset)
                self.held.setdefault(member, set()).add(message)
                holders = sum(message in messages for messages in self.held.values())
                self.account.deliver(message, self.retained[each.partition], holders)

    def answer(self) -> None:
        outcomes = [Outcome.ACCEPTED] * 5 + [Outcome.RELEASED, Outcome.FAILED, Outcome.REJECTED]
        for member in sorted(self.held):
            messages = sorted(self.held[member])
            for message in self.random.sample(messages, self.random.randint(0, min(len(messages), 8))):
                self.answer_one(member, message, self.random.choice(outcomes))

    def answer_one(self, member: str, message: Message, outcome: Outcome) -> None:
        account, cursor = self.account, self.cursors()[message[0]]
        assert account is not None
        assert any(first <= message[1] < end for first, end in cursor.unsettled(member))
        self.held[member].discard(message)
        is_lost = outcome is Outcome.REJECTED and message[1] < self.retained[message[0]]
        account.answer(message, Outcome.RELEASED if is_lost else outcome)
        sequence = self.settle(member, message, outcome)
        if message in account.settled:
            self.wait(message[0], sequence, lambda: account.tell(message))

    def flush_in_time(self) -> None:
        if self.flushes.changed and self.now_ms >= self.flushed_ms + FLUSH_MS:
            self.flush()

    def flush(self) -> None:
        """Write what changed; when nothing failed, all that was settled before is on disk."""
        self.flushed_ms = self.now_ms
        while flushes := self.flushes.begin(self.random.randint(1, 4)):
            for flush in flushes:
                self.state.records.append(encode_record(flush.key, flush.value))
            if self.chance(0.1):
                raise Died
            if self.chance(0.1):
                self.state.take_back(len(flushes))
                for flush in flushes:
                    self.flushes.failed(flush)
                return
            self.state.sync()
            for flush in flushes:
                for call in self.flushes.done(flush):
                    call()
        if self.account is not None:
            settled = {each for each in self.account.settled if each[0] in self.cursors()}
            assert settled <= self.account.told, "settled before a flush, and nobody was told"

    def write_letters(self) -> None:
        for partition, cursor in sorted(self.cursors().items()):
            letters = cursor.take_dead_letters(self.random.randint(1, 6))
            account = self.account
            assert account is not None
            messages = [(partition, at) for each in letters for at in range(each.first, each.end)]
            for letter in letters:
                for offset in range(letter.first, letter.end):
                    account.write_letter((partition, offset), letter.reason, LIMITS.delivery_count_max or 0)
            if self.chance(0.1):
                for letter in letters:
                    cursor.dead_letters_failed(letter.first, letter.end)
                continue
            self.letters.records += messages
            self.sync_letters()
            self.letters_written(account, partition, letters)

    def sync_letters(self) -> None:
        if self.chance(0.1):
            raise Died
        self.letters.sync()

    def letters_written(self, account: Account, partition: int, letters: list[DeadLetter]) -> None:
        for letter in letters:
            sequence = self.cursors()[partition].dead_letters_written(letter.first, letter.end)
            for offset in range(letter.first, letter.end):
                message = (partition, offset)
                account.letter_written(message)
                self.wait(partition, sequence, lambda message=message: account.tell_letter(message))  # type: ignore[misc]

    def retain(self) -> None:
        """Old messages are removed, at once and for good."""
        partition = self.random.choice([*self.ends])
        last = min(self.ends[partition], self.retained[partition] + 30)
        self.retained[partition] = self.random.randint(self.retained[partition], last)
        if partition in self.cursors():
            self.cursors()[partition].overtake(self.retained[partition])

    def bind(self) -> None:
        """A stream with messages becomes a partition, somewhere between the others."""
        if len(self.ends) >= PARTITIONS_MAX:
            return
        self.number += self.random.randint(1, 9)
        number = self.number + self.random.choice([0, BOUND])
        first = self.random.choice([0, 4])
        others = list(self.ends.items())
        others.insert(self.random.randint(0, len(others)), (number, first + self.random.randint(0, 10)))
        self.ends, self.retained[number] = dict(others), first
        self.log_changed()

    def unbind(self) -> None:
        if len(self.ends) > 1:
            number = self.random.choice(list(self.ends))
            del self.ends[number], self.retained[number]
            for messages in self.held.values():
                messages.difference_update([each for each in messages if each[0] == number])
            self.log_changed()

    def log_changed(self) -> None:
        self.did(self.change({number: self.retained[number] for number in self.ends}))
        if self.account is not None:
            self.state.when_synced(self.account.unready.clear)
        if self.chance(0.2):
            raise Died

    def crash(self) -> None:
        self.crash_count += 1
        self.state.crash(self.random)
        self.letters.crash(self.random)
        self.members.clear()
        self.unanswered.clear()
        if self.account is not None:
            self.account.vanish({message for messages in self.held.values() for message in messages})
        self.held.clear()
        for account in self.accounts.values():
            account.crash()
        self.restart()
        restored = self.account
        if restored is not None:
            for number in restored.unready & restored.starts.keys():
                restored.forget_start(number)
                if number in self.cursors():
                    restored.start(number, self.cursors()[number].low)
            restored.unready.clear()

    def run(self, steps: int) -> None:
        often = [self.append, self.join, self.vanish, *[self.deliver, self.answer] * 3, self.write_letters]
        seldom = [self.retain, self.bind, self.unbind, self.finish]
        for _ in range(steps):
            self.now_ms += STEP_MS
            try:
                self.random.choice(seldom if self.random.random() < 0.08 else often)()
                self.flush_in_time()
                if self.chance(0.01):
                    raise Died
            except Died:
                self.crash()

    def drain(self) -> None:
        """With consumers that take all there is, and nothing that goes wrong, everything is settled in the end."""
        self.is_calm = True
        for _ in range(200):
            self.now_ms += 10_000
            if not self.is_served():
                self.join()
        for _ in range(20 * sum(self.ends.values()) + 20):
            self.now_ms += 10_000
            self.state.sync()
            self.deliver()
            for member in sorted(self.held):
                for message in sorted(self.held[member]):
                    self.answer_one(member, message, Outcome.ACCEPTED)
            self.write_letters()
            cursors = self.cursors()
            if cursors.keys() == self.ends.keys() and not any(
                cursor.lag(self.ends[number]) for number, cursor in cursors.items()
            ):
                break
        else:
            raise AssertionError("not everything came")
        self.flush()
        assert self.account is not None
        left_out = self.account.left_out(self.ends, self.retained, set(self.letters.records))
        assert not left_out, "neither accepted nor a dead letter"
