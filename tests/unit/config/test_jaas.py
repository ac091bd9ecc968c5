"""JAAS configurations: logins with their options, and texts that are none."""

from __future__ import annotations

import pytest

from ottla.config.jaas import JaasError, Login, parse_logins

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "logins"),
    [
        (f"{PLAIN} required;", [Login(PLAIN, "required", {})]),
        (
            f'{PLAIN} required username="admin" password="a;b=\\"c\\" \\\\ d" user_bob=secret ;',
            [
                Login(
                    PLAIN, "required", {"username": "admin", "password": 'a;b="c" \\ d', "user_bob": "secret"}
                )
            ],
        ),
        (
            f'{PLAIN} REQUIRED\n  // a comment\n  user_a = "1" /* and\n another */ user_b="";\n'
            "a.Module optional debug=true;",
            [
                Login(PLAIN, "required", {"user_a": "1", "user_b": ""}),
                Login("a.Module", "optional", {"debug": "true"}),
            ],
        ),
    ],
)
def test_logins_are_read(text: str, logins: list[Login]) -> None:
    assert parse_logins(text) == logins


@pytest.mark.parametrize(
    "text",
    [
        "", "  // nothing", PLAIN, f"{PLAIN} required", f"{PLAIN} needed;", f"{PLAIN} required a;",
        f"{PLAIN} required a=;", f"{PLAIN} required a=secret-text", f'{PLAIN} required a="secret-text;',
        f'"{PLAIN}" required;', f"{PLAIN} required =secret-text;", ";",
    ],
)  # fmt: skip
def test_other_texts_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_logins(text)
    assert "secret-text" not in str(refused.value)


def test_options_are_not_printed() -> None:
    assert "secret" not in repr(parse_logins(f"{PLAIN} required password=secret;"))


@pytest.mark.parametrize(
    "text",
    [
        f"{PLAIN} required password=my hunter2;",
        f"{PLAIN} required password=my hunter2",
        f"{PLAIN} required hunter2=",
        f"{PLAIN} required hunter2 = ;",
        f'{PLAIN} required password="a" hunter2 user="b";',
        f"{PLAIN} hunter2 required;",
        f"hunter2 {PLAIN} required;",
        "hunter2;",
        'required password="hunter2',
    ],
)
def test_no_word_of_a_text_that_is_none_is_repeated(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_logins(text)
    assert "hunter2" not in str(refused.value)
