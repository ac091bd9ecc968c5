"""Damaged messages raise a ProtocolError: every message, every version, every kind of damage."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.errors import MalformedMessage, ProtocolError
from ottla.protocol.schema import Message
from support.protocol.messages import all_messages, random_message

MESSAGES = [pytest.param(cls, id=cls.NAME) for cls in all_messages()]
SAMPLES_A_VERSION = 3
MUTATIONS_A_SAMPLE = 25


def decodes_or_refuses(cls: type[Message], data: bytes, version: int) -> None:
    """Either a ProtocolError, or a message that can be encoded again with the same meaning."""
    try:
        message = cls.decode(data, version)
    except ProtocolError:
        return
    again = message.encode(version)
    assert cls.decode(again, version).encode(version) == again


def mutated(data: bytes, dice: random.Random) -> bytes:
    """The bytes with one to three changes: a byte changed or set to an extreme, bytes removed or inserted."""
    changed = bytearray(data)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(4):
            case 0 if at < len(changed):
                changed[at] = dice.randrange(256)
            case 1 if at < len(changed):
                changed[at] = dice.choice((0x00, 0x7F, 0x80, 0xFF))
            case 2:
                del changed[at : at + dice.randrange(1, 5)]
            case _:
                changed[at:at] = dice.randbytes(dice.randrange(1, 6))
    return bytes(changed)


@pytest.mark.parametrize("cls", MESSAGES)
def test_every_prefix_of_a_message_is_malformed(cls: type[Message]) -> None:
    dice = random.Random(3)
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        data = random_message(cls, version, dice).encode(version)
        cuts = range(len(data)) if len(data) < 60 else sorted(dice.sample(range(len(data)), 60))
        for cut in cuts:
            with pytest.raises(MalformedMessage):
                cls.decode(data[:cut], version)
            with pytest.raises(MalformedMessage):
                cls.decode_prefix(data[:cut], version)


@pytest.mark.parametrize("cls", MESSAGES)
def test_bytes_after_a_message_are_malformed(cls: type[Message]) -> None:
    dice = random.Random(4)
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        data = random_message(cls, version, dice).encode(version)
        with pytest.raises(MalformedMessage):
            cls.decode(data + b"\0", version)


@pytest.mark.parametrize("cls", MESSAGES)
def test_mutated_messages_are_refused_or_read(cls: type[Message]) -> None:
    dice = random.Random(5)
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        for _ in range(SAMPLES_A_VERSION):
            data = random_message(cls, version, dice).encode(version)
            for _ in range(MUTATIONS_A_SAMPLE):
                decodes_or_refuses(cls, mutated(data, dice), version)


@pytest.mark.parametrize("cls", MESSAGES)
def test_random_bytes_are_refused_or_read(cls: type[Message]) -> None:
    dice = random.Random(6)
    for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
        for size in (0, 1, 2, 5, 20, 100, 400):
            decodes_or_refuses(cls, dice.randbytes(size), version)
            decodes_or_refuses(cls, bytes((dice.choice((0x00, 0xFF, 0x7F, 0x80)),)) * size, version)
