"""Stored passwords in all forms, and files of users."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest

from ottla.security.password_hashes import METHODS, UnusableHash, deobfuscated, hashed, stored_password
from ottla.security.realm_file import UnusableRealm, read_realm, realm_line


@pytest.mark.parametrize(
    ("stored", "password"),
    [
        ("secret", "secret"),
        ("", ""),
        ("MD5:5ebe2294ecd0e0f08eab7690d2a6ee69", "secret"),
        ("MD5:5EBE2294ECD0E0F08EAB7690D2A6EE69", "secret"),
        ("OBF:1v2j1uum1xtv1zej1zer1xtn1uvk1v1v", "password"),
        ("CRYPT:adpexzg3FUZAk", "admin"),
        ("CRYPT:$2b$05$abcdefghijklmnopqrstuuhKF09ZYWwH2zP/0fwE1X8e/Q1YNx/hO", "x"),
    ],
)
def test_jettys_forms_and_those_of_crypt_are_read(stored: str, password: str) -> None:
    read = stored_password(stored)
    assert read.matches(password)
    for wrong in (password + "x", "x" + password, password.swapcase() + "!", "\0"):
        assert not read.matches(wrong)


def obfuscated(text: str) -> str:
    """As Jetty makes it, by its published method."""
    data, out = text.encode(), "OBF:"
    for first, second in zip(data, reversed(data), strict=True):
        if first > 127 or second > 127:
            number = first * 256 + second
            out += "U0000"[: 5 - len(base36(number))] + base36(number)
        else:
            number = (127 + first + second) * 256 + 127 + first - second
            out += "000"[: 4 - len(base36(number))] + base36(number)
    return out


def base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (base36(number // 36) if number >= 36 else "") + digits[number % 36]


def test_an_obfuscated_password_is_the_one_that_jetty_hid() -> None:
    draw = random.Random(20)
    for _ in range(300):
        text = "".join(draw.choice("abcXYZ019 ,:=%äöü€\\") for _ in range(draw.randrange(1, 20)))
        assert deobfuscated(obfuscated(text).removeprefix("OBF:")) == text


@pytest.mark.parametrize("method", METHODS)
def test_a_hash_is_of_its_password_alone_and_different_each_time(method: str) -> None:
    password = "pässword with , and :"
    made = hashed(password, method)
    assert made != hashed(password, method)
    assert stored_password(made).matches(password) and stored_password(made).is_slow
    assert not stored_password(made).matches("pässword with , and ;")


SALT = base64.b64encode(bytes(16)).decode()


@pytest.mark.parametrize(
    "stored",
    [
        "MD5:", "MD5:zz", "MD5:" + "0" * 31, "OBF:", "OBF:!!!!", "OBF:U", "CRYPT:", "CRYPT:$99$x$y",
        "SCRYPT:", "SCRYPT:15:8:1", f"SCRYPT:40:8:1:{SALT}:{SALT}", f"SCRYPT:20:32:1:{SALT}:{SALT}",
        f"SCRYPT:0:8:1:{SALT}:{SALT}", f"SCRYPT:15:8:1:!:{SALT}", f"SCRYPT:15:8:1:{SALT}:",
        "PBKDF2:", f"PBKDF2:md5:1:{SALT}:{SALT}", f"PBKDF2:sha256:0:{SALT}:{SALT}",
        f"PBKDF2:sha256:99999999:{SALT}:{SALT}", f"PBKDF2:sha256:x:{SALT}:{SALT}",
    ],
)  # fmt: skip
def test_a_form_that_can_t_be_checked_is_refused_without_being_told(stored: str) -> None:
    if stored == "OBF:":
        assert stored_password(stored).matches("")
        return
    with pytest.raises(UnusableHash) as refused:
        stored_password(stored)
    assert SALT not in str(refused.value)


def test_a_realm_s_users_have_their_roles(tmp_path: Path) -> None:
    path = tmp_path / "users.properties"
    path.write_text(
        "# users\nalice: MD5:5ebe2294ecd0e0f08eab7690d2a6ee69,developer, admin\nbob=plain\n"
        + realm_line("c d:e", hashed("secret"), ("a", "b"))
        + "\n"
    )
    realm = read_realm(path)
    alice = realm.verified("alice", "secret")
    assert alice is not None and alice.roles == {"developer", "admin"}
    assert realm.verified("bob", "plain") is not None
    other = realm.verified("c d:e", "secret")
    assert other is not None and other.roles == {"a", "b"}
    for name, password in (("alice", "Secret"), ("nobody", "secret"), ("bob", ""), ("alice", "s" * 5000)):
        assert realm.verified(name, password) is None
    assert "secret" not in repr(realm) and "5ebe" not in repr(realm)


@pytest.mark.parametrize("text", ["alice: ,admin", "alice: MD5:short", "alice: \\u00"])
def test_a_realm_that_can_t_be_used_is_told_with_its_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "users.properties"
    path.write_text(f"\n{text}\n")
    with pytest.raises(UnusableRealm, match=rf"{path.name}:2"):
        read_realm(path)


def test_a_realm_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnusableRealm, match="can't read"):
        read_realm(tmp_path / "none")
