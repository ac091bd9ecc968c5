"""Error codes and their exceptions."""

from __future__ import annotations

import pytest

from ottla.protocol import errors
from ottla.protocol.errors import ErrorCode, KafkaError, ProtocolError, error_class


def test_every_code_but_none_has_a_class_of_its_name() -> None:
    for code in ErrorCode:
        if code is ErrorCode.NONE:
            continue
        cls = error_class(code)
        assert cls.code is code
        assert cls.__name__ == "".join(word.capitalize() for word in code.name.split("_"))
        assert getattr(errors, cls.__name__) is cls


def test_codes_are_without_gaps_and_each_has_its_own_text() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))
    assert len({code.message for code in ErrorCode}) == len(ErrorCode)


def test_an_error_has_the_text_of_its_code_or_its_own() -> None:
    assert str(errors.UnknownTopicOrPartition()) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
    assert errors.InvalidConfig("segment.bytes: 3 is below 14").message == "segment.bytes: 3 is below 14"
    assert repr(errors.InvalidConfig("x")) == "InvalidConfig('x')"


def test_retriable_errors_are_those_of_kafkas_clients() -> None:
    assert errors.NotLeaderOrFollower().retriable
    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.retriable
    assert not errors.InvalidRequest().retriable
    assert not ErrorCode.REBALANCE_IN_PROGRESS.retriable


def test_an_unknown_code_is_an_unknown_server_error_and_zero_is_no_error() -> None:
    assert error_class(9999) is errors.UnknownServerError
    with pytest.raises(ValueError, match="NONE is not an error"):
        error_class(0)


def test_malformed_bytes_are_never_an_answer() -> None:
    for cls in (errors.MalformedMessage, errors.CorruptBatch, errors.UnsupportedApiVersion):
        assert issubclass(cls, ProtocolError)
        assert not issubclass(cls, KafkaError)
    assert str(errors.UnsupportedApiVersion("ProduceRequest", 2)) == "ProduceRequest has no version 2"
