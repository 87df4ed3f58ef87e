"""The CloudEvents SDK for Python as a client: what it sends is taken, and what comes back is what it sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from cloudevents.core.bindings import http as sdk_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SdkEvent

from tests.event_source import BATCH, EventSource
from tests.http_api import Api
from tests.peers.servers import Server

TIME = datetime(2026, 1, 31, 12, 0, 0, 120_000, UTC)


def sdk_event(number: int) -> SdkEvent:
    attributes = {
        "specversion": "1.0",
        "id": f"event {number}",
        "source": "/sdk/1",
        "type": "org.example.sdk",
        "time": TIME,
        "datacontenttype": "application/json",
        "subject": 'a "quoted" one, 100 % ü',
        "extension": "text",
    }
    return SdkEvent(attributes, {"number": number, "text": "ü"})


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_what_the_sdk_sends_comes_back_as_it_was(server: Server, root: Api, name: str, mode: str) -> None:
    encode = sdk_http.to_binary if mode == "binary" else sdk_http.to_structured
    sent = [sdk_event(number) for number in range(3)]
    for one in sent:
        message = encode(one, JSONFormat())
        reply = root.ask("POST", f"/logs/{name}/events", raw=message.body, headers=dict(message.headers))
        assert reply.status == 200, reply
    batch = root.ask("GET", f"/logs/{name}/events", headers={"Accept": BATCH}).body
    with EventSource(server.http_port, f"/logs/{name}/events") as source:
        followed = [each.event for each in source.take(3)]
    for found in (batch, followed):
        for one, given in zip(sent, found, strict=True):
            headers = {"content-type": "application/cloudevents+json"}
            message = sdk_http.HTTPMessage(headers, json.dumps(given).encode())
            event = sdk_http.from_structured(message, JSONFormat(), SdkEvent)
            assert event.get_data() == one.get_data()
            assert event.get_attributes() == one.get_attributes()
