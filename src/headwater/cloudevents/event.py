"""CloudEvents 1.0: the event as a value, whose attributes have types and whose data are bytes.

A Boolean is a bool, an Integer an int, a Binary bytes, and a String a str. The other types are text with a class of its
own, which stays as it was sent: a time keeps its digits and its offset.
"""

from __future__ import annotations

import binascii
import enum
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec

from headwater.cloudevents.attributes import AttributeValue
from headwater.encoding import _cloudevents_text_kernel as text_kernel
from headwater.encoding._cloudevents_kernel import ATTRIBUTES_MAX
from headwater.encoding._cloudevents_text_kernel import is_allowed
from headwater.errors import InvalidCloudEvent

__all__ = [
    "CORE_TYPES",
    "EMPTY",
    "KINDS",
    "NAME_SHOWN_MAX",
    "OTHER_VERSION",
    "REASONS",
    "REQUIRED",
    "SPEC_VERSION",
    "TOO_WIDE",
    "WRONG_NAME",
    "AttributeType",
    "CloudEvent",
    "ExtensionTypes",
    "Timestamp",
    "Uri",
    "UriReference",
    "canonical_text",
    "event_of_texts",
    "new_event",
    "typed_value",
]

SPEC_VERSION = "1.0"
REQUIRED = ("specversion", "id", "source", "type")


class Uri(str):
    """A URI with its scheme."""

    __slots__ = ()


class UriReference(str):
    """A URI, or what is relative to one."""

    __slots__ = ()


class Timestamp(str):
    """A time as RFC 3339 writes it."""

    __slots__ = ()


class AttributeType(enum.Enum):
    """The types of attributes, in the words of the specification."""

    BOOLEAN = "Boolean"
    INTEGER = "Integer"
    STRING = "String"
    BINARY = "Binary"
    URI = "URI"
    URI_REFERENCE = "URI-reference"
    TIMESTAMP = "Timestamp"


ExtensionTypes: TypeAlias = Mapping[str, AttributeType]
"""What extensions are, for those who read them as text; an extension that it does not name is a String then."""

CORE_TYPES: ExtensionTypes = {
    "specversion": AttributeType.STRING,
    "id": AttributeType.STRING,
    "source": AttributeType.URI_REFERENCE,
    "type": AttributeType.STRING,
    "datacontenttype": AttributeType.STRING,
    "dataschema": AttributeType.URI,
    "subject": AttributeType.STRING,
    "time": AttributeType.TIMESTAMP,
}
"""Every attribute that CloudEvents defines."""


class CloudEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that is valid, or could not have been made; its attributes are not to be changed.

    Raises InvalidCloudEvent. An attribute that is None is left out. A time may be given as a datetime with an offset.
    """

    attributes: dict[str, AttributeValue]
    data: bytes | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "attributes", _checked(self.attributes))

    def get(self, name: str, /) -> AttributeValue | None:
        """The value of an attribute; None if it is not there."""
        return self.attributes.get(name)

    @property
    def id(self) -> str:
        """What names the event among those of its source."""
        return str(self.attributes["id"])

    @property
    def source(self) -> UriReference:
        """The context in which it happened."""
        return UriReference(self.attributes["source"])

    @property
    def type(self) -> str:
        """What kind of thing happened."""
        return str(self.attributes["type"])

    @property
    def datacontenttype(self) -> str | None:
        """The media type of the data."""
        value = self.attributes.get("datacontenttype")
        return None if value is None else str(value)


def new_event(
    id: str, source: str, type: str, data: bytes | None = None, **others: AttributeValue | datetime | None
) -> CloudEvent:
    """An event of this version of CloudEvents; raises InvalidCloudEvent if it cannot be."""
    required = {"specversion": SPEC_VERSION, "id": id, "source": source, "type": type}
    return CloudEvent({**required, **others}, data)  # type: ignore[dict-item] # a datetime becomes a Timestamp


def event_of_texts(
    texts: Iterable[tuple[str, str]], data: bytes | None, types: ExtensionTypes | None = None
) -> CloudEvent:
    """An event out of the canonical texts of its attributes, as bindings carry them that have nothing but text."""
    attributes: dict[str, AttributeValue] = {}
    for name, text in texts:
        if name in attributes:
            raise InvalidCloudEvent(name, "is there twice")
        attributes[name] = typed_value(name, text, types)
    return CloudEvent(attributes, data)


def canonical_text(value: AttributeValue) -> str:
    """A value as the specification's "String encoding" of its type has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return binascii.b2a_base64(value, newline=False).decode("ascii")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def typed_value(name: str, text: str, types: ExtensionTypes | None = None) -> AttributeValue:
    """The value that the canonical text of an attribute stands for; raises InvalidCloudEvent if it stands for none."""
    if not types or (type_ := types.get(name)) is None or name in CORE_TYPES:
        return text
    if (kind := _CLASSES_OF_TYPES.get(type_)) is not None:
        return kind(text)
    match type_:
        case AttributeType.BOOLEAN if text in ("true", "false"):
            return text == "true"
        case AttributeType.INTEGER if _INTEGER.fullmatch(text):
            return int(text)
        case AttributeType.BINARY:
            try:
                return binascii.a2b_base64(text, strict_mode=True)
            except ValueError:
                pass
    raise InvalidCloudEvent(name, f"is no {type_.value}")


# What is valid.


def _checked(attributes: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Each value in the class of its type."""
    checked: dict[str, AttributeValue] = {}
    for name, value in attributes.items():
        if value is None:
            continue
        core = _CORE.get(name)
        checked[name] = _extension(name, value) if core is None else _core_text(name, value, *core)
    for name in REQUIRED:
        if name not in checked:
            raise InvalidCloudEvent(name, "is missing")
    if checked["specversion"] != SPEC_VERSION:
        raise InvalidCloudEvent("specversion", OTHER_VERSION)
    if len(checked) > ATTRIBUTES_MAX:
        raise InvalidCloudEvent(None, f"has more than {ATTRIBUTES_MAX} attributes")
    return checked


def _core_text(name: str, value: object, kind: int, class_: type[str]) -> str:
    if not isinstance(value, str):
        if not isinstance(value, datetime):
            raise InvalidCloudEvent(name, f"is a {type(value).__name__}, not a {CORE_TYPES[name].value}")
        value = _text_of_time(name, value)
    if not value:
        raise InvalidCloudEvent(name, EMPTY)
    _check_text(name, value, kind)
    return value if type(value) is class_ else class_(value)


def _extension(name: str, value: object) -> AttributeValue:
    if not is_allowed(text_kernel.NAME, name.encode("utf-8", "replace")):
        raise InvalidCloudEvent(name[:NAME_SHOWN_MAX], WRONG_NAME)
    if isinstance(value, str):
        _check_text(name, value, _KINDS_OF_CLASSES.get(type(value), text_kernel.STRING))
        return value if type(value) in _KINDS_OF_CLASSES else str(value)
    if isinstance(value, bool | bytes):
        return value
    if isinstance(value, datetime):
        return _text_of_time(name, value)
    if not isinstance(value, int):
        raise InvalidCloudEvent(name, f"is a {type(value).__name__}, which is no type of an attribute")
    if not -(1 << 31) <= value < 1 << 31:
        raise InvalidCloudEvent(name, TOO_WIDE)
    return int(value)


def _check_text(name: str, text: str, kind: int) -> None:
    try:
        is_valid = is_allowed(kind, text.encode())
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise InvalidCloudEvent(name, REASONS[kind])


def _text_of_time(name: str, moment: datetime) -> Timestamp:
    if moment.utcoffset() is None:
        raise InvalidCloudEvent(name, "is a time without an offset from UTC")
    return Timestamp(moment.isoformat().replace("+00:00", "Z"))


NAME_SHOWN_MAX = 100
"""Characters of a name that is wrong, in what is said of it."""
EMPTY = "is empty"
OTHER_VERSION = f"is not {SPEC_VERSION}"
TOO_WIDE = "is an Integer of more than 32 bits"
WRONG_NAME = "has a name that is not made of lower-case letters and digits, or is `data`"
REASONS = {
    text_kernel.STRING: "holds characters that CloudEvents do not allow",
    text_kernel.URI: "is no URI with a scheme",
    text_kernel.URI_REFERENCE: "is no URI-reference",
    text_kernel.TIMESTAMP: "is no time as RFC 3339 writes it",
    text_kernel.MEDIA_TYPE: "is no media type",
}
"""What is said of a text that is not what it has to be."""
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,9})")
KINDS: Mapping[AttributeType, int] = {
    AttributeType.STRING: text_kernel.STRING,
    AttributeType.URI: text_kernel.URI,
    AttributeType.URI_REFERENCE: text_kernel.URI_REFERENCE,
    AttributeType.TIMESTAMP: text_kernel.TIMESTAMP,
}
"""What the text of each type has to be."""
_CLASSES_OF_TYPES: dict[AttributeType, type[str]] = {
    AttributeType.STRING: str,
    AttributeType.URI: Uri,
    AttributeType.URI_REFERENCE: UriReference,
    AttributeType.TIMESTAMP: Timestamp,
}
_KINDS_OF_CLASSES = {class_: KINDS[type_] for type_, class_ in _CLASSES_OF_TYPES.items()}
_CORE = {name: (KINDS[type_], _CLASSES_OF_TYPES[type_]) for name, type_ in CORE_TYPES.items()} | {
    "datacontenttype": (text_kernel.MEDIA_TYPE, str)
}
"""What the text of an attribute that CloudEvents defines has to be, and its class; enums are slow keys."""
