"""`/openapi.json`: OpenAPI 3.1, generated from the declarations of the endpoints that are served."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headwater import __version__
from headwater.server.http.endpoint import Answer, Endpoint, Media
from headwater.server.http.problems import (
    BAD_REQUEST,
    CONTENT_TYPE,
    FORBIDDEN,
    INTERNAL,
    NOT_JSON,
    STORAGE,
    TIMEOUT,
    TOO_LARGE,
    UNAUTHORIZED,
    UNAVAILABLE,
    Kind,
    Problem,
)

__all__ = ["document"]

OPENAPI_VERSION = "3.1.0"
JSON = "application/json"
REFERENCE = "#/components/schemas/{name}"
SECURITY: Sequence[Mapping[str, object]] = ({"basic": []}, {"certificate": []})

_Schema = dict[str, Any]


def document(endpoints: Iterable[Endpoint[Any, Any]]) -> _Schema:
    """The document that says all of these."""
    served = list(endpoints)
    schemas = _Schemas(served)
    paths: defaultdict[str, _Schema] = defaultdict(dict)
    for endpoint in served:
        paths[endpoint.path][endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Headwater",
            "version": __version__,
            "summary": "One partitioned, durable event log",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(paths),
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "certificate": {"type": "mutualTLS", "description": "The common name is that of the user."},
            },
        },
    }


class _Schemas:
    """Schemas of all types that the endpoints declare; what several of them have in common is a component."""

    def __init__(self, endpoints: Sequence[Endpoint[Any, Any]]) -> None:
        types: dict[object, Any] = {Problem: Problem}
        for endpoint in endpoints:
            bodies = (endpoint.body, *(answer.body for answer in endpoint.answers))
            types |= {body: body for body in bodies if body is not None and not isinstance(body, Media)}
            for field in msgspec.structs.fields(endpoint.query):
                types[endpoint.query, field.name] = field.type
        schemas, self.components = msgspec.json.schema_components(types.values(), ref_template=REFERENCE)
        self._known = dict(zip(types, schemas, strict=True))

    def of(self, type_: object) -> _Schema:
        """Of a body, or of a parameter, which is known by the type of the query and its name."""
        return self._known[type_]


def _operation(endpoint: Endpoint[Any, Any], schemas: _Schemas) -> _Schema:
    first, _, rest = (endpoint.handler.__doc__ or "").partition("\n")
    operation: _Schema = {
        "operationId": endpoint.name,
        "summary": first.strip().rstrip("."),
        "description": " ".join([*rest.split(), f"For {endpoint.needs.description}."]),
        "tags": [endpoint.path.split("/")[1]],
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint, schemas)],
        "responses": _responses(endpoint, schemas),
        "security": [] if endpoint.needs.is_public else list(SECURITY),
    }
    if endpoint.body is not None:
        is_required = not isinstance(endpoint.body, Media) and _has_required(endpoint.body)
        operation["requestBody"] = {"required": is_required, "content": _content(endpoint.body, schemas)}
    return operation


def _path_parameters(endpoint: Endpoint[Any, Any]) -> Iterable[_Schema]:
    for part in endpoint.parts:
        yield {
            "name": part,
            "in": "path",
            "required": True,
            "description": f"Name of the {part}, percent-encoded.",
            "schema": {"type": "string", "minLength": 1, "pattern": "^[^/]+$"},
        }


def _query_parameters(endpoint: Endpoint[Any, Any], schemas: _Schemas) -> Iterable[_Schema]:
    for field in msgspec.structs.fields(endpoint.query):
        schema = dict(schemas.of((endpoint.query, field.name)))
        parameter = {
            "name": field.encode_name,
            "in": "query",
            "required": field.required,
            "description": schema.pop("description", ""),
            "schema": schema,
        }
        if field.default not in (msgspec.NODEFAULT, None):
            schema["default"] = field.default
        yield parameter


def _responses(endpoint: Endpoint[Any, Any], schemas: _Schemas) -> _Schema:
    responses: _Schema = {str(answer.status): _answer(answer, schemas) for answer in endpoint.answers}
    by_status: defaultdict[int, list[Kind]] = defaultdict(list)
    for kind in dict.fromkeys((*_common(endpoint), *endpoint.all_problems)):
        by_status[kind.status].append(kind)
    for status, kinds in sorted(by_status.items()):
        response = {
            "description": "; ".join(f"{kind.word}: {kind.title}" for kind in kinds),
            "content": {CONTENT_TYPE: {"schema": schemas.of(Problem)}},
        }
        responses.setdefault(str(status), response)
    return responses


def _common(endpoint: Endpoint[Any, Any]) -> Iterable[Kind]:
    """What may go wrong everywhere."""
    yield from (BAD_REQUEST, INTERNAL)
    if not endpoint.needs.is_public:
        yield from (UNAUTHORIZED, FORBIDDEN, UNAVAILABLE)
    if endpoint.body is not None:
        yield from (TIMEOUT, TOO_LARGE, NOT_JSON)
    if endpoint.is_audited:
        yield STORAGE


def _answer(answer: Answer, schemas: _Schemas) -> _Schema:
    response: _Schema = {"description": answer.description or "Done."}
    if answer.body is not None:
        response["content"] = _content(answer.body, schemas)
    if answer.headers:
        response["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in answer.headers.items()
        }
    return response


def _content(body: Any, schemas: _Schemas) -> _Schema:  # noqa: ANN401 - a type, or what msgspec takes for one
    if isinstance(body, Media):
        return {name: {"schema": schema} for name, schema in body.schemas.items()}
    return {JSON: {"schema": schemas.of(body)}}


def _has_required(body: Any) -> bool:  # noqa: ANN401 - a type, or what msgspec takes for one
    return any(field.required for field in msgspec.structs.fields(body))
