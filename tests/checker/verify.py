"""The whole of a run, held against its promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.checker.content import StreamContent, target_of
from tests.checker.history import Denied, Event, Finished, ServerEnded
from tests.checker.plan import AMQP_DOOR, Consumer, Plan
from tests.checker.turns import ServerFacts
from tests.checker.verify_consuming import check_consumer, check_offsets, filters_of
from tests.checker.verify_groups import check_group
from tests.checker.verify_messages import check_messages
from tests.checker.verify_publishing import check_content, check_publisher
from tests.checker.verify_sides import check_side_stream
from tests.checker.verify_subscriptions import check_subscription
from tests.checker.violation import Kind, Violation

__all__ = ["RUNNER", "server_facts", "target_of_consumer", "verify"]

RUNNER = "runner"


def verify(
    plan: Plan,
    histories: Mapping[str, Sequence[Event]],
    contents: Mapping[str, StreamContent],
    facts: ServerFacts,
) -> list[Violation]:
    """Everything that does not hold; histories are by client, contents by stream."""
    return list(_verify(plan, histories, contents, facts))


def _verify(
    plan: Plan,
    histories: Mapping[str, Sequence[Event]],
    contents: Mapping[str, StreamContent],
    facts: ServerFacts,
) -> Iterator[Violation]:
    for content in contents.values():
        yield from check_content(content, plan.publishers)
    for publisher in plan.publishers:
        who = f"publisher {publisher.number}"
        history = histories.get(who, ())
        yield from check_publisher(publisher, history, contents[publisher.stream])
        if not any(isinstance(event, Finished) for event in history):
            yield Violation(Kind.STUCK, f"{who} did not come to its end")
    for consumer in plan.consumers:
        content = contents[consumer.stream]
        target = target_of_consumer(plan, consumer, content)
        history = histories.get(consumer.name, ())
        if consumer.door == AMQP_DOOR:
            yield from check_messages(consumer.name, history, content, target)
        else:
            yield from check_consumer(consumer, history, content, plan.publishers, target)
    members = {name: histories.get(name, ()) for name in plan.members}
    for group in plan.groups:
        for stream in group.streams:
            yield from check_group(group.reference, stream, members, contents[stream], facts)
    yield from _verify_subscriptions(plan, histories, contents)
    yield from check_offsets(histories.values())
    for stream in plan.side_streams:
        yield from check_side_stream(histories.get(stream, ()))
    for who, history in histories.items():
        for event in history:
            if isinstance(event, Denied):
                yield Violation(Kind.DENIED, f"{who}: {event.reason}")


def _verify_subscriptions(
    plan: Plan, histories: Mapping[str, Sequence[Event]], contents: Mapping[str, StreamContent]
) -> Iterator[Violation]:
    for subscription, stream in plan.subscriptions.items():
        names = [each.name for each in plan.subscribers if each.subscription == subscription]
        of_all = {name: histories.get(name, ()) for name in names}
        yield from check_subscription(subscription, of_all, contents[stream])


def target_of_consumer(plan: Plan, consumer: Consumer, content: StreamContent) -> int:
    """How far a consumer must come: to the end, or to the last message that its filter lets through."""
    wanted = filters_of(consumer)
    return target_of(content, plan.publishers, wanted) if wanted else content.end


def server_facts(history: Sequence[Event], given_up: frozenset[tuple[int, int]]) -> ServerFacts:
    """What the history of the runner says of the server."""
    ended_at = {event.life: event.at for event in history if isinstance(event, ServerEnded)}
    return ServerFacts(ended_at, given_up)
