"""The first users of a new cluster, from the text that `kafka-storage format --add-scram` takes (KIP-900).

SCRAM-SHA-256=[name=alice,password=secret]; with iterations=8192, with salt="Base64", or with
saltedpassword="Base64" in place of a password. A value with a comma or a bracket stands in quotation marks.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from ottla.core.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, credential_of
from ottla.protocol.records.user_scram_credential_record import UserScramCredentialRecord

SALT_BYTES: Final = 32
_VALUE: Final = r'(?:"(?:[^"\\]|\\.)*"|[^",\]\s][^,\]]*)'
_FIELD: Final = re.compile(rf"\s*(?P<name>[a-z]+)\s*=\s*(?P<value>{_VALUE})\s*(?:,|$)")
# A comma between two fields, so that there is one way to read them.
_ONE: Final = rf"\s*[a-z]+\s*=\s*{_VALUE}\s*"
_USER: Final = re.compile(rf"\s*(?P<mechanism>[A-Z0-9-]+)\s*=\s*\[(?P<fields>{_ONE}(?:,{_ONE})*)\]\s*(?:;|$)")
_FIELDS: Final = frozenset({"name", "password", "iterations", "salt", "saltedpassword"})


class UnusableUser(ValueError):
    """A user that can't be made. The message has no value: by a wrong mark, it may be the password."""


def first_users(text: str, random_bytes: Callable[[int], bytes]) -> list[UserScramCredentialRecord]:
    """The credentials of all users of the text. Raises UnusableUser."""
    records: dict[tuple[int, str], UserScramCredentialRecord] = {}
    position = number = 0
    while position < len(text.rstrip()):
        number += 1
        user = f"user {number}"
        found = _USER.match(text, position)
        if found is None:
            raise UnusableUser(f"{user} is not of the form SCRAM-SHA-256=[name=alice,password=secret]")
        position = found.end()
        record = _record(user, found["mechanism"], _fields(user, found["fields"]), random_bytes)
        if (record.mechanism, record.name) in records:
            raise UnusableUser(f"{user} is given twice with {found['mechanism']}")
        records[record.mechanism, record.name] = record
    return list(records.values())


def _fields(user: str, text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for found in _FIELD.finditer(text):
        name, value = found["name"], found["value"].strip()
        if name not in _FIELDS or name in fields:
            known = ", ".join(sorted(_FIELDS))
            raise UnusableUser(f"{user} has a field that is not known, or given twice; known are {known}")
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        fields[name] = value
    return fields


def _record(
    user: str, mechanism_name: str, fields: dict[str, str], random_bytes: Callable[[int], bytes]
) -> UserScramCredentialRecord:
    mechanism = ScramMechanism.of_name(mechanism_name)
    if mechanism is None:
        known = ", ".join(each.mechanism_name for each in ScramMechanism)
        raise UnusableUser(f"{user}: {mechanism_name} is none of {known}")
    name = fields.get("name")
    if not name:
        raise UnusableUser(f"{user} has no name")
    given = fields.get("iterations", str(MIN_ITERATIONS))
    iterations = int(given) if given.isdecimal() and len(given) < 10 else -1
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise UnusableUser(f"{user} has wrong iterations: allowed are {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    salt = _decoded(user, "salt", fields["salt"]) if "salt" in fields else random_bytes(SALT_BYTES)
    if ("password" in fields) == ("saltedpassword" in fields):
        raise UnusableUser(f"{user} needs a password, or a saltedpassword")
    if "password" in fields:
        salted = mechanism.salted_password(fields["password"].encode(), salt, iterations)
    elif "salt" in fields:
        salted = _decoded(user, "saltedpassword", fields["saltedpassword"])
    else:
        raise UnusableUser(f"{user} has a saltedpassword, so it needs its salt")
    credential = credential_of(mechanism, salt, salted, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.number,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _decoded(user: str, field: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise UnusableUser(f"the {field} of {user} is no Base64") from None
