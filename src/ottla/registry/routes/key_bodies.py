"""Bodies of requests about keys, and the checks of their names: 42271 for a field that can't be taken.

Fields that are not known are left out, as by Confluent's DEK registry.
"""

from __future__ import annotations

import unicodedata
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from starlette.requests import Request

from ottla.encryption.algorithms import DEFAULT_ALGORITHM, DekAlgorithm
from ottla.encryption.key_services import LOCAL, SECRET, SECRET_VARIABLE
from ottla.registry.core.contexts import normal_subject
from ottla.registry.core.keys.failures import invalid_key
from ottla.registry.core.keys.model import MAX_KEY_VERSION, Dek, Kek
from ottla.registry.core.keys.writing import UNCHANGED, KekChange
from ottla.registry.registry import Registry
from ottla.registry.routes.bodies import json_object, wrong_body
from ottla.registry.routes.parameters import Limits, number, path_text
from ottla.web.errors import ApiError

T = TypeVar("T")

MAX_NAME_CHARACTERS: Final = 256
MAX_SUBJECT_CHARACTERS: Final = 1_024
MAX_KEY_ID_CHARACTERS: Final = 2_048
MAX_DOC_CHARACTERS: Final = 16_384
MAX_MATERIAL_CHARACTERS: Final = 8_192
MAX_PROPS: Final = 100
MAX_PROPS_CHARACTERS: Final = 16_384
_KEY_ID_BEGINNINGS: Final = {
    "aws-kms": ("arn:aws:kms:",),
    "azure-kms": ("https://",),
    "gcp-kms": ("projects/",),
    "hcvault": ("https://", "http://"),
}


def kek_name_of(request: Request) -> str:
    """The path's KEK. 42271."""
    return checked_name(path_text(request, "kek"))


def checked_name(name: str | None) -> str:
    """The name of a KEK: a letter or `_`, then letters, digits, `_` and `-`. 42271."""
    if not name or len(name) > MAX_NAME_CHARACTERS:
        raise invalid_key("name")
    if not (name[0].isalpha() or name[0] == "_"):
        raise invalid_key("name")
    if not all(one.isalpha() or one.isdecimal() or one in "_-" for one in name[1:]):
        raise invalid_key("name")
    return name


def checked_subject(subject: str | None) -> str:
    """The subject of a DEK, as the core names it. 42271."""
    if not subject or len(subject) > MAX_SUBJECT_CHARACTERS:
        raise invalid_key("subject")
    if any(unicodedata.category(one) in ("Cc", "Cs") for one in subject):
        raise invalid_key("subject")
    return normal_subject(subject)


def algorithm_of(request: Request) -> DekAlgorithm | None:
    """`?algorithm=`, None where the query names none. 404, as Confluent answers."""
    text = request.query_params.get("algorithm")
    if not text:
        return None
    if text not in DekAlgorithm.__members__:
        choices = ", ".join(DekAlgorithm)
        raise ApiError(404, 404, f"HTTP 404 Not Found: algorithm must be one of {choices}")
    return DekAlgorithm(text)


def key_page(request: Request, items: Sequence[T], limits: Limits) -> Sequence[T]:
    """The part of `items` that the query asks for; a limit that is not from 1 to the most is none."""
    first, asked = max(number(request, "offset", 0), 0), number(request, "limit", -1)
    return items[first : first + (asked if 0 < asked <= limits.most else limits.default)]


async def new_kek(request: Request, registry: Registry) -> Kek:
    """The body of a request that makes a KEK. 400, 413, 422, 42271."""
    body = await json_object(request, registry, None)
    name = checked_name(_text(body, "name"))
    key_id, kms_type = _text(body, "kmsKeyId", MAX_KEY_ID_CHARACTERS), _text(body, "kmsType")
    if not key_id:
        raise invalid_key("kmsKeyId")
    if not kms_type:
        raise invalid_key("kmsType")
    if not key_id.startswith(_KEY_ID_BEGINNINGS.get(kms_type, ("",))):
        raise invalid_key("kmsKeyId")
    props = _without_secret(kms_type, _props(body) or {})
    doc = _text(body, "doc", MAX_DOC_CHARACTERS)
    return Kek(name, kms_type, key_id, props, doc, _flag(body, "shared"), _flag(body, "deleted"))


async def kek_change(request: Request, registry: Registry, kms_type: str) -> KekChange:
    """The body of a request that changes a KEK of this type; null empties a field. 400, 413, 422, 42271."""
    body = await json_object(request, registry, None)
    shared = body.get("shared")
    return KekChange(
        _without_secret(kms_type, _props(body) or {}) if "kmsProps" in body else UNCHANGED,
        _text(body, "doc", MAX_DOC_CHARACTERS) if "doc" in body else UNCHANGED,
        UNCHANGED if shared is None else _flag(body, "shared"),
    )


async def new_dek(request: Request, registry: Registry, kek_name: str, subject: str | None) -> Dek:
    """The body of a request that makes a version of a DEK; `subject` counts before the body's.

    400, 413, 422, 42271.
    """
    body = await json_object(request, registry, None)
    named = _text(body, "subject")
    algorithm, version = _text(body, "algorithm"), body.get("version")
    material = _text(body, "encryptedKeyMaterial", MAX_MATERIAL_CHARACTERS)
    if algorithm is not None and algorithm not in DekAlgorithm.__members__:
        raise wrong_body(f"algorithm must be one of {', '.join(DekAlgorithm)}")
    if version is not None and (type(version) is not int or not 1 <= version <= MAX_KEY_VERSION):
        raise invalid_key("version")
    if material is not None:
        _check_material(material)
    return Dek(
        kek_name,
        checked_subject(named) if subject is None else subject,
        DEFAULT_ALGORITHM if algorithm is None else DekAlgorithm(algorithm),
        1 if version is None else version,
        material,
        _flag(body, "deleted"),
    )


def _check_material(material: str) -> None:
    try:
        wrapped = b64decode(material, validate=True)
    except ValueError:
        wrapped = b""
    if not wrapped:
        raise invalid_key("encryptedKeyMaterial")


def _without_secret(kms_type: str, props: Mapping[str, str]) -> Mapping[str, str]:
    """The properties, which must not hold the very secret that protects the keys beside them."""
    if kms_type == LOCAL and SECRET in props:
        raise invalid_key(
            "kmsProps",
            f"the secret is not kept beside the keys; give it to the registry by {SECRET_VARIABLE}",
        )
    return props


def _props(body: Mapping[str, Any]) -> Mapping[str, str] | None:
    value = body.get("kmsProps")
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise wrong_body("kmsProps must be texts by their names")
    size = sum(len(name) + len(text) for name, text in value.items())
    if len(value) > MAX_PROPS or size > MAX_PROPS_CHARACTERS:
        raise invalid_key("kmsProps")
    return value


def _text(body: Mapping[str, Any], name: str, most_characters: int | None = None) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise wrong_body(f"{name} must be a text")
    if value is not None and most_characters is not None and len(value) > most_characters:
        raise invalid_key(name)
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise wrong_body(f"{name} must be true or false")
    return bool(value)
