"""What content types say of the messages that they stand on."""

from __future__ import annotations

import pytest

from headwater.cloudevents.content_mode import (
    JSON_BATCH_TYPE,
    JSON_TYPE,
    Mode,
    media_type_of,
    mode_of,
    not_readable,
)


@pytest.mark.clause("CE-3", "CE-4")
@pytest.mark.parametrize(
    ("content_type", "mode"),
    [
        (None, Mode.BINARY),
        ("", Mode.BINARY),
        ("application/json", Mode.BINARY),
        ("application/cloudevent", Mode.BINARY),
        ("x application/cloudevents+json", Mode.BINARY),
        (JSON_TYPE, Mode.STRUCTURED),
        ("application/cloudevents", Mode.STRUCTURED),
        ("APPLICATION/CLOUDEVENTS+JSON ;charset=x", Mode.STRUCTURED),
        (JSON_BATCH_TYPE, Mode.BATCH),
        ("application/cloudevents-batch", Mode.BATCH),
        ("Application/CloudEvents-Batch+xml", Mode.BATCH),
        ("application/cloudevents+avro", Mode.OPAQUE),
        ("application/cloudevents+jsonx", Mode.OPAQUE),
        ("application/cloudeventss", Mode.OPAQUE),
    ],
)
def test_a_content_type_stands_for_a_mode(content_type: str | None, mode: Mode) -> None:
    assert mode_of(content_type) is mode


def test_a_media_type_has_small_letters_and_no_parameters() -> None:
    assert media_type_of(' Text/Plain ; charset="x;y"') == "text/plain"


def test_what_is_not_read_is_named() -> None:
    assert str(not_readable("application/CloudEvents+avro; a=b")).startswith(
        "this is no valid CloudEvent: it is application/cloudevents+avro, which is not read here"
    )
