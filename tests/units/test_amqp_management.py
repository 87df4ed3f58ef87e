"""Requests and responses of AMQP Management, without a server."""

from __future__ import annotations

import contextlib
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.amqp.management import (
    OperationFailed,
    Request,
    RequestMessage,
    Response,
    StatusCode,
    encode_response,
)
from headwater.encoding.amqp_encoder import encoding_of
from headwater.encoding.amqp_message import (
    AmqpValue,
    Data,
    Message,
    Properties,
    decode_message,
    encode_message,
)
from headwater.encoding.amqp_types import Array, Int, Symbol, Uint, Ulong
from headwater.errors import MalformedValue


def message_of(body: Any = None, properties: Properties | None = None, **given: Any) -> RequestMessage:
    value = None if body is None else AmqpValue(body)
    made = Message(properties=properties, application_properties=given or None, body=value)
    return RequestMessage.decode(encode_message(made))


def request_of(body: Any = None, **given: Any) -> Request:
    return message_of(body, **{"operation": "READ", "type": "a.type", **given}).request()


@pytest.mark.clause("AMQP management 1")
def test_a_request_says_what_is_to_be_done_and_to_what() -> None:
    request = request_of({"a": 1}, name="orders", locales="en", count=Uint(3))
    assert (request.operation, request.type, request.name, request.identity) == (
        "READ",
        "a.type",
        "orders",
        None,
    )
    assert request.map_body() == {"a": 1}
    assert request.number("count") == 3
    assert request.number("offset") is None
    assert request.text("locales") == "en"


def test_values_lose_the_classes_of_their_types() -> None:
    array = Array((Symbol("x"), Symbol("y")), Symbol)
    body = request_of({Symbol("a"): Ulong(1), "b": [Symbol("c"), {"d": Int(-1)}], "e": array, "f": True}).body
    assert body == {"a": 1, "b": ["c", {"d": -1}], "e": ["x", "y"], "f": True}
    assert {type(key) for key in body} == {str}
    assert [type(body["a"]), type(body["b"][0]), type(body["b"][1]["d"]), type(body["f"])] == [
        int,
        str,
        int,
        bool,
    ]


@pytest.mark.parametrize("missing", ["operation", "type"])
@pytest.mark.parametrize("value", [None, "", 5, b"READ"])
def test_a_request_without_operation_or_type_is_a_bad_one(missing: str, value: object) -> None:
    with pytest.raises(OperationFailed, match=missing) as failed:
        request_of(**{missing: value})
    assert failed.value.response.status is StatusCode.BAD_REQUEST


def test_a_message_without_application_properties_is_a_bad_request() -> None:
    with pytest.raises(OperationFailed, match="operation"):
        message_of().request()


@pytest.mark.parametrize("body", [["a", "list"], "text", 5, {1: "a"}])
def test_a_body_that_is_no_map_of_names_is_refused_where_one_is_needed(body: object) -> None:
    with pytest.raises(OperationFailed, match="map"):
        request_of(body).map_body()


def test_a_body_of_bytes_is_no_map() -> None:
    made = Message(application_properties={"operation": "CREATE", "type": "t"}, body=Data((b"{}",)))
    with pytest.raises(OperationFailed, match="map"):
        RequestMessage.decode(encode_message(made)).request().map_body()


@pytest.mark.parametrize("body", [None, {}, []])
def test_no_body_at_all_counts_as_an_empty_map(body: object) -> None:
    assert request_of(body).map_body() == {}


@pytest.mark.parametrize("value", ["12", Ulong(12), 12])
def test_numbers_may_come_as_text(value: object) -> None:
    assert request_of(count=value).number("count") == 12


@pytest.mark.parametrize("value", [-1, "-1", "ten", "", "1" * 19, True, 1.5, [1], b"1"])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(OperationFailed, match="whole number"):
        request_of(count=value).number("count")


@pytest.mark.clause("AMQP management 1")
@pytest.mark.parametrize("id_", [7, "seven", b"7", UUID(int=7)])
def test_a_response_repeats_the_correlation_id_and_else_the_message_id(id_: Any) -> None:
    assert message_of(properties=Properties(message_id=id_)).correlation_id == id_
    asked = message_of(properties=Properties(message_id="other", correlation_id=id_, reply_to="here"))
    data = encode_response(Response(StatusCode.OK), asked.reply_to, asked.correlation_id)
    answered = decode_message(data, 0, len(data)).properties
    assert answered == Properties(to="here", correlation_id=id_)
    assert message_of().correlation_id is None


@pytest.mark.clause("AMQP management 1")
def test_a_response_says_its_status_in_numbers_and_words() -> None:
    response = Response(StatusCode.NO_CONTENT, properties={"count": 2})
    message = decode_message(data := encode_response(response, None, None), 0, len(data))
    assert message.application_properties == {
        "statusCode": 204,
        "statusDescription": "No Content",
        "count": 2,
    }
    assert message.body == AmqpValue({})
    failed = OperationFailed(StatusCode.NOT_FOUND, "there is none").response
    message = decode_message(data := encode_response(failed, None, None), 0, len(data))
    assert message.application_properties == {"statusCode": 404, "statusDescription": "there is none"}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["operation", "type", "name", "count", "x"]), VALUES), VALUES)
def test_any_message_is_a_request_or_a_bad_one(given: dict[str, Any], body: Any) -> None:
    message = RequestMessage(Message(application_properties=given, body=AmqpValue(body)))
    bad: OperationFailed | None = None
    try:
        request = message.request()
        request.number("count")
        request.text("name")
        request.map_body()
    except OperationFailed as failed:
        bad = failed
    if bad is None:
        assert isinstance(given["operation"], str)
    else:
        assert bad.status is StatusCode.BAD_REQUEST
        assert encode_response(bad.response, None, None)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    with contextlib.suppress(MalformedValue, OperationFailed):
        RequestMessage.decode(data).request()


def test_the_status_is_an_int_and_counts_are_uints_on_the_wire() -> None:
    assert encoding_of(Int) is not encoding_of(Uint)
    data = encode_response(Response(StatusCode.OK, properties={"count": 1}), None, None)
    assert b"\xa1\x0astatusCode\x71\x00\x00\x00\xc8" in data
    assert b"\xa1\x05count\x52\x01" in data
