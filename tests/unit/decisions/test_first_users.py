"""The first users of a new cluster, beside the texts that kafka-storage format --add-scram takes."""

from __future__ import annotations

import base64

import pytest

from ottla.core.decisions.first_users import UnusableUser, first_users
from ottla.core.security.sasl.scram import ScramMechanism, credential_of

SALT = b"s" * 32


def made(text: str) -> list[tuple[str, int, int, bytes]]:
    return [
        (each.name, each.mechanism, each.iterations, bytes(each.stored_key))
        for each in first_users(text, lambda size: b"s" * size)
    ]


def key(mechanism: ScramMechanism, password: str, salt: bytes = SALT, iterations: int = 4096) -> bytes:
    salted = mechanism.salted_password(password.encode(), salt, iterations)
    return credential_of(mechanism, salt, salted, iterations).stored_key


@pytest.mark.parametrize(
    ("text", "name", "password"),
    [
        ("SCRAM-SHA-256=[name=alice,password=secret]", "alice", "secret"),
        (' SCRAM-SHA-256 = [ name = "alice" , password = "se,cr]et" ] ; ', "alice", "se,cr]et"),
        (r'SCRAM-SHA-256=[name=alice,password="a\"b\\c"]', "alice", 'a"b\\c'),
        ("SCRAM-SHA-256=[password=a=b,name=User:x]", "User:x", "a=b"),
    ],
)
def test_a_user_has_a_name_and_a_password(text: str, name: str, password: str) -> None:
    assert made(text) == [(name, 1, 4096, key(ScramMechanism.SHA_256, password))]


def test_users_stand_behind_semicolons() -> None:
    text = "SCRAM-SHA-256=[name=a,password=x];SCRAM-SHA-512=[name=a,password=x,iterations=8192];"
    assert made(text) == [
        ("a", 1, 4096, key(ScramMechanism.SHA_256, "x")),
        ("a", 2, 8192, key(ScramMechanism.SHA_512, "x", iterations=8192)),
    ]


def test_a_salted_password_has_its_salt() -> None:
    salted = ScramMechanism.SHA_256.salted_password(b"x", b"salt", 4096)
    text = (
        f'SCRAM-SHA-256=[name=a,salt="{base64.b64encode(b"salt").decode()}",'
        f'saltedpassword="{base64.b64encode(salted).decode()}"]'
    )
    assert made(text) == [("a", 1, 4096, key(ScramMechanism.SHA_256, "x", b"salt"))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alice:secret-1", "user 1 is not of the form"),
        ("SCRAM-SHA-256=[name=a,password=secret-1", "user 1 is not of the form"),
        ("SCRAM-SHA-256=[name=a,password=secret-1]; x", "user 2 is not of the form"),
        ("SCRAM-SHA-1=[name=a,password=secret-1]", "SCRAM-SHA-1 is none of"),
        ("SCRAM-SHA-256=[password=secret-1]", "user 1 has no name"),
        ("SCRAM-SHA-256=[name=a;password=secret-1]", "user 1 needs a password"),
        ("SCRAM-SHA-256=[name=a,iterations=1;password=secret-1,password=x]", "wrong iterations"),
        ("SCRAM-SHA-256=[name=a,password=x,secret-1=y]", "is not of the form"),
        ("SCRAM-SHA-256=[name=a]", "user 1 needs a password"),
        ("SCRAM-SHA-256=[name=a,password=secret-1,saltedpassword=eA==]", "user 1 needs a password"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=eA==]", "it needs its salt"),
        ("SCRAM-SHA-256=[name=a,password=secret-1,iterations=1]", "wrong iterations"),
        ("SCRAM-SHA-256=[name=a,password=secret-1,iterations=many]", "wrong iterations"),
        ("SCRAM-SHA-256=[name=a,password=secret-1,salt=?]", "the salt of user 1 is no Base64"),
        ("SCRAM-SHA-256=[name=a,password=secret-1,password=x]", "given twice"),
        ("SCRAM-SHA-256=[name=a,password=secret-1,role=x]", "a field that is not known"),
        (
            "SCRAM-SHA-256=[name=a,password=secret-1];SCRAM-SHA-256=[name=a,password=y]",
            "user 2 is given twice",
        ),
    ],
)
def test_a_user_that_can_not_be_made_is_told_without_the_password(text: str, words: str) -> None:
    with pytest.raises(UnusableUser) as refused:
        made(text)
    assert words in str(refused.value)
    assert "secret-1" not in str(refused.value)


def test_a_long_text_that_is_none_is_read_in_one_go() -> None:
    for text in ("SCRAM-SHA-256=[" + "a=b c" * 5000, "SCRAM-SHA-256=[" + "name=a," * 5000, "[" * 10_000):
        with pytest.raises(UnusableUser):
            made(text)
