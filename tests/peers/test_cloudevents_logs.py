"""Clients of other makers on logs of CloudEvents: rstream and Qpid Proton publish, and Proton reads."""

from __future__ import annotations

from proton import Delivery, Message
from rstream import AMQPMessage, CompressionType, ConfirmationStatus

from tests.peers.proton_clients import connected, receive_from
from tests.peers.rstream_clients import Clients, Gathered, read, run
from tests.peers.servers import Server
from tests.peers.test_event_streams_proton import make_log

COUNT = 6


def attributes(number: int) -> dict[str, str]:
    core = {"specversion": "1.0", "id": str(number), "source": "/rstream", "type": "t"}
    return {f"cloudEvents_{name}": value for name, value in core.items()}


def event(number: int) -> AMQPMessage:
    return AMQPMessage(application_properties=attributes(number), body=b"{}")


class Outcomes(Gathered):
    """What became of messages."""

    def take(self, status: ConfirmationStatus) -> None:
        self.add((status.is_confirmed, status.response_code))


def test_a_stream_client_hears_of_what_is_no_event_and_repeats_without_harm(
    server: Server, stream: str
) -> None:
    with connected(server) as connection:
        make_log(connection, stream, 1, content="cloudevents", duplicates_window_count=100)

        async def conversation() -> None:
            async with Clients(server) as clients:
                producer, outcomes = clients.producer(), Outcomes()
                events = [event(number) for number in range(COUNT)]
                no_event = AMQPMessage(body=b"no event")
                for message in (*events, no_event, event(0)):
                    await producer.send(stream, message, on_publish_confirm=outcomes.take)
                await outcomes.wait_for(COUNT + 2)
                assert sorted(outcomes.items) == [(False, 17), *[(True, 0)] * (COUNT + 1)]
                again = Outcomes()
                batch = [event(1), event(COUNT), event(2)]
                gzip = CompressionType.Gzip
                await producer.send_sub_entry(stream, batch, gzip, on_publish_confirm=again.take)
                await again.wait_for(1)
                assert again.items == [(True, 0)]
                inbox = await read(clients.consumer(), stream, COUNT + 1)
                assert inbox.messages == [bytes(event(number)) for number in range(COUNT + 1)]

        run(conversation())
        receiver = receive_from(connection, stream, credit=COUNT + 1)
        ids = []
        for _ in range(COUNT + 1):
            ids.append(receiver.receive().properties["cloudEvents_id"])
            receiver.accept()
        assert ids == [str(number) for number in range(COUNT + 1)]


def test_a_proton_sender_reads_the_reason_and_its_other_messages_are_accepted(
    server: Server, stream: str
) -> None:
    with connected(server) as connection:
        make_log(connection, stream, 1, content="cloudevents")
        sender = connection.create_sender(stream, name=f"to-{stream}")
        messages = [
            Message(properties=attributes(1), body=b"1", inferred=True),
            Message(properties={**attributes(2), "cloudEvents_type": ""}, body=b"2", inferred=True),
            Message(properties=attributes(3), body=b"3", inferred=True),
        ]
        sent = [sender.link.send(message) for message in messages]
        connection.wait(lambda: all(each.remote_state for each in sent))
        states = [each.remote_state for each in sent]
        assert states == [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.ACCEPTED]
        condition = sent[1].remote.condition
        assert condition.name == "amqp:invalid-field"
        assert "its type is empty" in condition.description
