"""Which instance becomes the primary, and the metadata of instances in their group."""

from __future__ import annotations

import orjson
import pytest

from ottla.registry.membership import (
    Assignment,
    AssignmentError,
    Identity,
    assign,
    encode_identity,
)

LOW = Identity("a", 8081)
HIGH = Identity("b", 8081)


def members(*identities: Identity) -> dict[str, bytes]:
    return {f"member-{number}": encode_identity(one) for number, one in enumerate(identities)}


def test_the_lowest_url_becomes_the_primary() -> None:
    assert assign(members(HIGH, LOW)) == Assignment(AssignmentError.NONE, "member-1", LOW)


def test_the_present_primary_stays() -> None:
    present = HIGH.with_role(True)
    assert assign(members(LOW, present)).primary == present


@pytest.mark.parametrize("leader", [False, True])
def test_an_instance_that_is_not_eligible_is_never_the_primary(leader: bool) -> None:
    reader = Identity("0", 1, eligible=False, leader=leader)
    assert assign(members(reader, HIGH)).primary == HIGH
    assert assign(members(reader)) == Assignment(AssignmentError.NONE, None, None)


def test_two_of_one_url_have_no_primary() -> None:
    assert assign(members(LOW, LOW, HIGH)) == Assignment(AssignmentError.DUPLICATE_URLS, None, None)


@pytest.mark.parametrize("garbage", [b"", b"{}", b"[1]", b"\xff", b'{"host": 1, "port": "x"}'])
def test_a_member_with_unreadable_metadata_is_not_chosen(garbage: bytes) -> None:
    assert assign({**members(HIGH), "other": garbage}).primary == HIGH


def test_an_identity_is_confluents_json() -> None:
    told = {"version": 1, "host": "a", "port": 8081, "master_eligibility": True, "scheme": "http"}
    assert orjson.loads(encode_identity(LOW)) == {**told, "leader": False}
    # as versions before the field `leader` say it
    assert Identity.from_json(told) == LOW


def test_an_assignment_is_read_as_it_was_written() -> None:
    for assignment in (assign(members(LOW, HIGH)), assign({}), assign(members(LOW, LOW))):
        assert Assignment.decode(assignment.encode()) == assignment


@pytest.mark.parametrize(
    "garbage", [b"", b"null", b"[]", b'{"error": 7}', b'{"error": 0, "master_identity": 3}']
)
def test_an_assignment_that_is_none_is_refused(garbage: bytes) -> None:
    with pytest.raises(ValueError):
        Assignment.decode(garbage)


def test_the_url_of_an_ipv6_host() -> None:
    assert Identity("::1", 8081).url == "http://[::1]:8081"
