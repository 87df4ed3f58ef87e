"""What CloudEvents cost: attributes of stored messages found and decoded, events read and written in every form."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable

import msgspec

from bench.figure import Figure, Options, at_least
from bench.kernel import Bench
from headwater.cloudevents import amqp_binding, http_binding, json_format
from headwater.cloudevents.event import CloudEvent, new_event
from headwater.cloudevents.stored import StoredAttributes
from headwater.encoding._cloudevents_json_kernel import write_events
from headwater.encoding._cloudevents_kernel import ATTRIBUTE_FIELDS, SLOTS, find_attributes
from headwater.encoding._span_kernel import SPAN_FIELDS

__all__ = ["run"]

EVENTS = 1_000
BATCH = 100
FIND_AIM_NS = 100
DECODE_AIM_NS = 2_000
BATCH_AIM_M_PER_S = 0.3
"""Of events, and there is more that the HTTP door does with them."""
EVENT = new_event(
    "A234-1234-1234",
    "https://github.com/cloudevents/spec/pull",
    "com.github.pull_request.opened",
    json.dumps({"appinfoA": "abc", "appinfoB": 123, "appinfoC": True}).encode(),
    subject="123",
    time="2018-04-05T17:31:00Z",
    comexampleothervalue=5,
    datacontenttype="application/json",
)
"""The example of the specification, with JSON as its data."""
NAMES = (*SLOTS, "comexampleothervalue")


def run(options: Options) -> list[Figure]:
    """The kernels, the view over stored messages, and the bindings."""
    bench = Bench(options)
    return [*_kernel_figures(bench), *_view_figures(bench), *_binding_figures(bench)]


def _kernel_figures(bench: Bench) -> list[Figure]:
    message = amqp_binding.encode(EVENT)
    size = len(message)
    spans = array("q", bytes(8 * SPAN_FIELDS * EVENTS))
    for number in range(EVENTS):
        start = number * size
        spans[SPAN_FIELDS * number : SPAN_FIELDS * (number + 1)] = array(
            "q", (start, start, start, start + size)
        )
    buffer, found = message * EVENTS, array("q", bytes(8 * ATTRIBUTE_FIELDS * EVENTS))

    def find(is_strict: bool) -> Callable[[], object]:
        return lambda: find_attributes(buffer, spans, 0, EVENTS, found, is_strict)

    return [
        _within(FIND_AIM_NS, bench.measure("8 attributes of a message found", EVENTS, "event", find(False))),
        _noted(bench.measure("8 attributes found and looked at in full", EVENTS, "event", find(True))),
    ]


def _view_figures(bench: Bench) -> list[Figure]:
    message = amqp_binding.encode(EVENT)
    attributes = StoredAttributes(message, 0, len(message))

    def given(names: tuple[str, ...]) -> Callable[[], None]:
        def call() -> None:
            attributes.move(0, len(message))
            get = attributes.get
            for name in names:
                get(name)

        return call

    return [
        _within(DECODE_AIM_NS, bench.measure("stored, 8 attributes as values", 1, "event", given(NAMES))),
        _noted(bench.measure("stored, one attribute as a value", 1, "event", given(("type",)))),
    ]


def _binding_figures(bench: Bench) -> list[Figure]:
    text = json_format.encode_event(EVENT)
    batch = json_format.encode_batch([EVENT] * BATCH)
    message = amqp_binding.encode(EVENT)
    http = http_binding.encode_binary(EVENT)
    out, spans, keys = bytearray(4 * len(batch)), array("q", bytes(32 * BATCH)), array("q", bytes(16 * BATCH))

    def write_batch() -> None:
        written, _, _ = write_events(batch, 1, BATCH, b"", out, 0, spans, keys, 0)
        if written != BATCH:
            raise ValueError(f"{written} of {BATCH} events were written")

    batched = bench.measure("a JSON batch as AMQP messages", BATCH, "event", write_batch)
    cases: dict[str, Callable[[], object]] = {
        "an event made of its attributes": lambda: CloudEvent(EVENT.attributes, EVENT.data),
        "JSON read": lambda: json_format.decode_event(text),
        "JSON written": lambda: json_format.encode_event(EVENT),
        "AMQP read": lambda: amqp_binding.decode(message, 0, len(message)),
        "AMQP written": lambda: amqp_binding.encode(EVENT),
        "HTTP headers read": lambda: http_binding.decode(http.headers, http.body),
        "HTTP headers written": lambda: http_binding.encode_binary(EVENT),
    }
    figures = [_noted(bench.measure(name, 1, "event", call)) for name, call in cases.items()]
    return [msgspec.structs.replace(_noted(batched), aim=at_least(BATCH_AIM_M_PER_S)), *figures]


def _within(aim_ns: int, figure: Figure) -> Figure:
    return msgspec.structs.replace(_noted(figure), aim=at_least(round(1000 / aim_ns, 1)))


def _noted(figure: Figure) -> Figure:
    each_ns = 1000 / figure.median
    note = f"{each_ns:.0f} ns each" if each_ns < 10_000 else f"{each_ns / 1000:.0f} us each"
    return msgspec.structs.replace(
        figure, case=figure.case.replace("kernel: ", "cloudevents: "), yardstick=note
    )
