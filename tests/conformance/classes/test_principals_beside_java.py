"""Names of certificates, and the principals that rules make of them, beside Java's and Apache Kafka's own."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ottla.security.distinguished_names import rfc2253_name
from ottla.security.principal_mapping import InvalidMappingRules, InvalidPrincipal, PrincipalMapper
from support.clients.named_states import seed_of_this_run
from support.java.security_oracle import RefusedByJava, SecurityOracle, security_oracle

pytestmark = pytest.mark.java

COUNT = 3_000
OBJECT_IDENTIFIERS = (
    "550403", "550406", "550407", "550408", "550409", "55040a", "55040b", "0992268993f22c640101",
    "0992268993f22c640119", "2a864886f70d010901", "55040c", "550405", "55042a", "2b0601040182370a0301",
)  # fmt: skip
#: tag -> encoding of the kinds of strings; 0x02 is an integer.
TAGS = {
    0x0C: "utf-8", 0x12: "ascii", 0x13: "ascii", 0x14: "iso-8859-1", 0x16: "ascii",
    0x1A: "ascii", 0x1B: "ascii",    0x1E: "utf-16-be",
}  # fmt: skip


@pytest.fixture(scope="module")
def java() -> Iterator[SecurityOracle]:
    with security_oracle() as oracle:
        yield oracle


def element(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes((tag, len(content))) + content
    size = (len(content).bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + len(content).to_bytes(size, "big") + content


def draw_value(rng: random.Random) -> bytes:
    if rng.random() < 0.05:
        return element(0x02, b"\x2a")
    tag = rng.choice(list(TAGS))
    letters = ' ,=+<>#;"\\abcXYZ019.-@/' + ("äß€語" if tag in (0x0C, 0x1E) else "")
    size = rng.choice((1, 3, 8, 8, 150))
    return element(tag, "".join(rng.choice(letters) for _ in range(size)).encode(TAGS[tag]))


def draw_name(rng: random.Random) -> bytes:
    def part() -> bytes:
        number = element(0x06, bytes.fromhex(rng.choice(OBJECT_IDENTIFIERS)))
        return element(0x30, number + draw_value(rng))

    parts = []
    for _ in range(rng.randint(0, 5)):
        several = rng.choice((1, 1, 1, 2))
        parts.append(element(0x31, b"".join(sorted(part() for _ in range(several)))))
    return element(0x30, b"".join(parts))


def test_names_are_printed_as_java_prints_them(java: SecurityOracle) -> None:
    rng = random.Random(seed_of_this_run())
    names = [draw_name(rng) for _ in range(COUNT)]
    for name, told in zip(names, java.ask_all([("name", name) for name in names]), strict=True):
        assert rfc2253_name(name) == told, name.hex()


PIECES = (
    "^",
    "$",
    "CN=",
    "(.*?)",
    "(.*)",
    ",",
    "OU=",
    "ou",
    "([a-z]+)",
    ".",
    "\\w+",
    "[^,]*",
    "(?<who>x)?",
    "C",
)
REPLACEMENTS = ("$1", "$2", "$12", "$0", "x", "@", "\\$", "${who}", "$1$2", "\\@", "user-")
NAMES = (
    "CN=alice",
    "CN=alice,OU=sales,O=acme",
    "OU=x",
    "",
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=a\\,b,C=DE",
)


def draw_rules(rng: random.Random) -> str:
    rules = []
    for _ in range(rng.randint(1, 3)):
        pattern = "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 4)))
        pieces = rng.sample(REPLACEMENTS, rng.randint(0, 3))
        # Kafka breaks a replacement that names two groups which the pattern does not have.
        replacement = "".join(pieces) if "".join(pieces).count("2") < 2 else pieces[0]
        end = rng.choice(("", "L", "U", "L", "LU", " "))
        rules.append(
            rng.choice(
                ("DEFAULT", f"RULE:{pattern}/{replacement}/{end}", f"RULE:{pattern}/{replacement}/{end}")
            )
        )
    return rng.choice((",", ", ", " , ")).join(rules)


def test_rules_give_the_names_that_kafka_gives(java: SecurityOracle) -> None:
    rng = random.Random(seed_of_this_run())
    questions = [("map", draw_rules(rng), rng.choice(NAMES)) for _ in range(COUNT)]
    agreed = 0
    for (_, rules, name), told in zip(questions, java.ask_all(questions), strict=True):
        try:
            found: str | None = PrincipalMapper(rules).name_of(name)
        except (InvalidMappingRules, InvalidPrincipal):
            found = None
        if isinstance(told, RefusedByJava):
            # Java meets a replacement that it can't use only at the first name that the pattern matches.
            assert found is None, (rules, name, told)
        elif found is None:
            with pytest.raises(InvalidMappingRules, match="replacement"):
                PrincipalMapper(rules)
        else:
            assert found == told, (rules, name)
            agreed += 1
    assert agreed > COUNT / 4
