"""A proxy follows the frames of a connection, however the bytes arrive."""

from __future__ import annotations

import random
import struct

from ottla.testing.request_frames import REQUEST_HEAD, RESPONSE_HEAD, FrameHeads


def test_the_heads_do_not_depend_on_the_pieces() -> None:
    dice = random.Random()
    for _ in range(200):
        # given frames of random lengths
        frames = [
            (
                dice.randrange(100),
                dice.randrange(20),
                dice.randrange(1 << 31),
                dice.randbytes(dice.randrange(40)),
            )
            for _ in range(dice.randrange(1, 8))
        ]
        stream = b"".join(
            struct.pack(">ihhi", 8 + len(rest), key, version, correlation_id) + rest
            for key, version, correlation_id, rest in frames
        )
        # when they arrive in random pieces
        heads = FrameHeads(REQUEST_HEAD)
        found = []
        position = 0
        while position < len(stream):
            step = dice.randrange(1, 30)
            found += heads.feed(stream[position : position + step])
            position += step
        # then each head is found, once
        assert found == [(key, version, correlation_id) for key, version, correlation_id, _ in frames]


def test_a_response_shorter_than_its_head_does_not_break_the_ones_after_it() -> None:
    heads = FrameHeads(RESPONSE_HEAD)
    assert heads.feed(struct.pack(">ii", 4, 7) + struct.pack(">ii", 4, 8)) == [(7,), (8,)]
