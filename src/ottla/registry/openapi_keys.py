"""The part of the registry's OpenAPI document that is about the keys of encrypted fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.encryption.algorithms import DekAlgorithm
from ottla.registry.routes.deks import DEK, DEKS, VERSION, VERSIONS
from ottla.registry.routes.keks import KEK, KEKS
from ottla.registry.routes.operation import CONSUMED, PRODUCED
from ottla.web.openapi import Description, Query

_TYPES: Final = tuple(sorted(CONSUMED))
_PAGE: Final = (
    Query("offset", "The first of the list to answer", "integer"),
    Query("limit", "The most to answer; all, if it is not positive", "integer"),
)
_DELETED: Final = Query("deleted", "Softly deleted ones too", "boolean")
_PERMANENT: Final = Query("permanent", "For good, after it was deleted softly", "boolean")
_ALGORITHM: Final = Query("algorithm", "AES256_GCM, if none is named", choices=tuple(DekAlgorithm))
_TEST: Final = Query("testSharing", "Refuse a shared key with which the registry can't wrap", "boolean")
_REWRAP: Final = Query("rewrap", "Wrap the key of a version that is there anew", "boolean")


def _read(path: str, summary: str, answer: str, *query: Query) -> Description:
    return Description("GET", path, summary, {200: answer}, None, query, (404, 406, 422), PRODUCED)


def _made(method: str, path: str, summary: str, body: str, answer: str, *query: Query) -> Description:
    errors = (404, 406, 409, 413)
    return Description(method, path, summary, {200: answer}, body, query, errors, PRODUCED, _TYPES)


def _done(method: str, path: str, summary: str, *query: Query) -> Description:
    return Description(method, path, summary, {204: None}, None, query, (404, 406, 422), PRODUCED)


KEY_DESCRIPTIONS: Final = (
    _read(
        KEKS,
        "List key encryption keys",
        "Names",
        Query("subjectPrefix", "How subjects begin that have data encryption keys; may be repeated"),
        _DELETED,
        *_PAGE,
    ),
    _made("POST", KEKS, "Name a key of a key service", "NewKek", "Kek", _TEST),
    _read(KEK, "Get a key encryption key", "Kek", _DELETED),
    _made("PUT", KEK, "Change a key encryption key", "KekChange", "Kek", _TEST),
    _done("DELETE", KEK, "Delete a key encryption key", _PERMANENT),
    _done("POST", f"{KEK}/undelete", "Undelete a key encryption key"),
    Description(
        "POST",
        f"{KEK}/test",
        "Wrap a key on trial",
        {200: "Kek"},
        errors=(404, 406, 422),
        media_types=PRODUCED,
    ),
    _read(DEKS, "List the subjects with data encryption keys", "Names", _DELETED, *_PAGE),
    _made("POST", DEKS, "Make a data encryption key", "NewDek", "Dek", _REWRAP),
    _read(DEK, "Get the first version of a data encryption key", "Dek", _ALGORITHM, _DELETED),
    _made("POST", DEK, "Make a data encryption key of a subject", "NewDek", "Dek", _REWRAP),
    _done("DELETE", DEK, "Delete all versions of a data encryption key", _ALGORITHM, _PERMANENT),
    _done("POST", f"{DEK}/undelete", "Undelete all versions of a data encryption key", _ALGORITHM),
    _read(VERSIONS, "List the versions of a data encryption key", "Numbers", _ALGORITHM, _DELETED, *_PAGE),
    _read(VERSION, "Get a version of a data encryption key", "Dek", _ALGORITHM, _DELETED),
    _done("DELETE", VERSION, "Delete a version of a data encryption key", _ALGORITHM, _PERMANENT),
    _done("POST", f"{VERSION}/undelete", "Undelete a version of a data encryption key", _ALGORITHM),
)

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_FLAG: Final = {"type": "boolean"}
_KEK: Final[Mapping[str, Any]] = {
    "name": _TEXT,
    "kmsType": _TEXT,
    "kmsKeyId": _TEXT,
    "kmsProps": {"type": "object", "additionalProperties": _TEXT},
    "doc": _TEXT,
    "shared": _FLAG,
    "deleted": _FLAG,
}
_DEK: Final[Mapping[str, Any]] = {
    "subject": _TEXT,
    "version": _NUMBER,
    "algorithm": {"type": "string", "enum": [str(one) for one in DekAlgorithm]},
    "encryptedKeyMaterial": {"type": "string", "format": "byte"},
    "deleted": _FLAG,
}


def _object(fields: Mapping[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": dict(fields)}
    return {**schema, "required": list(required)} if required else schema


KEY_SCHEMAS: Final[Mapping[str, dict[str, Any]]] = {
    "Kek": _object({**_KEK, "ts": _NUMBER}, "name", "kmsType", "kmsKeyId", "kmsProps", "shared"),
    "NewKek": _object(_KEK, "name", "kmsType", "kmsKeyId"),
    "KekChange": _object({name: _KEK[name] for name in ("kmsProps", "doc", "shared")}),
    "Dek": _object(
        {"kekName": _TEXT, **_DEK, "keyMaterial": {"type": "string", "format": "byte"}, "ts": _NUMBER},
        *("kekName", "subject", "version", "algorithm", "encryptedKeyMaterial"),
    ),
    "NewDek": _object(_DEK),
}
