"""Values that hold a secret hide it where they are printed: a line of a crash, or of a log, may have them."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.schema import Struct

#: The houses that meet secrets; the others get them as settings.
HOUSES = ("broker", "client", "config", "core", "protocol", "registry", "rest", "security", "web")
MARKER = "hunter2"
SECRET_NAME = re.compile(
    r"password|secret|hmac|jaas|private|stored_key|server_key|auth_bytes|^token$|_token$"
)
#: Types of fields that are no secrets, or hide their own, though they are named so.
PLAIN_TYPES = ("int", "bool", "float", "Path", "Callable", "Setting", "TokenCredential")


def classes() -> Iterator[type]:
    seen: set[type] = set()
    for house in HOUSES:
        package = importlib.import_module(f"ottla.{house}")
        for each in pkgutil.walk_packages(package.__path__, f"ottla.{house}."):
            for found in vars(importlib.import_module(each.name)).values():
                if isinstance(found, type) and found.__module__.startswith("ottla.") and found not in seen:
                    seen.add(found)
                    yield found


def secret_fields(cls: type) -> dict[str, Any]:
    """A value for each field of a secret, by their names; empty for a class without one."""
    if dataclasses.is_dataclass(cls):
        types = {each.name: str(each.type) for each in dataclasses.fields(cls)}
    elif issubclass(cls, tuple) and hasattr(cls, "_fields"):
        types = {name: str(cls.__annotations__.get(name)) for name in cls._fields}
    elif issubclass(cls, Struct) and cls is not Struct:
        types = {each.name: str(each.kind) for each in getattr(cls, "FIELDS", ())}
    else:
        return {}
    return {
        name: MARKER
        for name, kind in types.items()
        if SECRET_NAME.search(name) and not any(plain in kind for plain in PLAIN_TYPES)
    }


def printed(cls: type, secrets: dict[str, Any]) -> str:
    """An object of the class with these values, and nothing in its other fields, as it is printed."""
    if issubclass(cls, Struct):
        made: Any = cls(**secrets)
    elif issubclass(cls, tuple):
        names = cls._fields  # type: ignore[attr-defined]
        made = tuple.__new__(cls, [secrets.get(name) for name in names])
    else:
        made = object.__new__(cls)
        for each in dataclasses.fields(cls):  # type: ignore[arg-type]
            object.__setattr__(made, each.name, secrets.get(each.name))
    return repr(made)


def test_every_class_with_a_secret_hides_it() -> None:
    telling, found = [], 0
    for cls in classes():
        if secrets := secret_fields(cls):
            found += 1
            if MARKER in printed(cls, secrets):
                telling.append(f"{cls.__module__}.{cls.__qualname__}: {', '.join(secrets)}")
    assert found > 15, "the search finds none of them"
    assert not telling


@pytest.mark.parametrize(
    "message",
    [
        SaslAuthenticateRequest(auth_bytes=MARKER.encode()),
        CreateDelegationTokenResponse(hmac=MARKER.encode(), token_id="id"),
    ],
)
def test_a_message_hides_credentials_and_shows_the_rest(message: Struct) -> None:
    assert MARKER not in repr(message)
    assert "[hidden]" in repr(message)
    assert ("token_id='id'" in repr(message)) == isinstance(message, CreateDelegationTokenResponse)


def test_the_packages_of_the_search_are_there() -> None:
    assert {each.name for each in pkgutil.iter_modules(ottla.__path__)} >= set(HOUSES)
