"""The texts of an exception in a dead letter."""

import json

from ottla.pipeline.sink.dead_letters import MAX_MESSAGE_CHARACTERS, MAX_TRACE_CHARACTERS, failure_of


def test_an_exception_of_a_users_function_is_told_bounded() -> None:
    def users(depth: int) -> None:
        if depth:
            users(depth - 1)
        raise ValueError("x" * 5000)

    try:
        users(300)
    except ValueError as problem:
        failure = failure_of(problem)

    assert failure.class_name == "ValueError"
    assert len(failure.message) == MAX_MESSAGE_CHARACTERS
    assert len(failure.stack_trace) < MAX_TRACE_CHARACTERS + 100
    assert "test_an_exception_of_a_users_function" not in failure.stack_trace
    assert "in users" in failure.stack_trace


def test_an_exception_that_is_not_pythons_own_is_told_with_its_module() -> None:
    assert failure_of(json.JSONDecodeError("bad", "{", 1)).class_name == "json.decoder.JSONDecodeError"
