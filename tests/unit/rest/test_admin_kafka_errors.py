"""What Kafka's errors become over HTTP, case by case."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from ottla.protocol.errors import ErrorCode
from ottla.rest.kafka_errors import of_code, of_kafka_error, raise_for
from ottla.web.errors import ApiError


@pytest.mark.parametrize(
    ("code", "status", "error_code"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 404, 40403),
        (ErrorCode.GROUP_ID_NOT_FOUND, 404, 40403),
        (KafkaError._UNKNOWN_PARTITION, 404, 40403),
        (ErrorCode.TOPIC_ALREADY_EXISTS, 400, 40002),
        (ErrorCode.INVALID_CONFIG, 400, 40002),
        (ErrorCode.INVALID_PARTITIONS, 400, 40002),
        (ErrorCode.POLICY_VIOLATION, 400, 40002),
        (ErrorCode.SECURITY_DISABLED, 400, 40002),
        (KafkaError._INVALID_ARG, 400, 40002),
        (ErrorCode.UNSUPPORTED_VERSION, 400, 40035),
        (KafkaError._UNSUPPORTED_FEATURE, 400, 40035),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, 401, 40101),
        (KafkaError._AUTHENTICATION, 401, 40101),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 403, 40301),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 403, 40301),
        (ErrorCode.NOT_CONTROLLER, 500, 50003),
        (ErrorCode.REQUEST_TIMED_OUT, 500, 50003),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 500, 50003),
        (KafkaError._TIMED_OUT, 500, 50003),
        (KafkaError._TRANSPORT, 500, 50003),
        (KafkaError._ALL_BROKERS_DOWN, 500, 50003),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 500, 50002),
        (ErrorCode.LOG_DIR_NOT_FOUND, 500, 50002),
        (KafkaError._FAIL, 500, 50002),
        (12_345, 500, 50002),
    ],
)
def test_status_and_code(code: int, status: int, error_code: int) -> None:
    problem = of_code(code)
    assert (problem.status, problem.error_code) == (status, error_code)
    assert problem.message.endswith(".")


def test_every_code_of_kafka_has_an_answer_with_words() -> None:
    for code in ErrorCode:
        problem = of_code(code)
        assert problem.status in (400, 401, 403, 404, 500), code
        assert str(problem.error_code).startswith(str(problem.status))
        assert len(problem.message) > 5, code


def test_the_brokers_words_are_kept_but_for_those_that_clients_know() -> None:
    assert of_code(ErrorCode.INVALID_CONFIG, "No such config.").message == "No such config."
    told = of_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nowhere").message
    assert told == "This server does not host this topic-partition."


def test_librdkafkas_words_for_a_brokers_error_are_replaced_and_its_own_kept() -> None:
    of_broker = of_kafka_error(KafkaError(KafkaError.INVALID_PARTITIONS))
    assert of_broker.error_code == 40002
    assert "Broker:" not in of_broker.message
    own = of_kafka_error(KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for controller"))
    assert (own.status, own.error_code, own.message) == (500, 50003, "Failed while waiting for controller")


def test_only_an_error_is_raised() -> None:
    raise_for(ErrorCode.NONE, None)
    with pytest.raises(ApiError, match="No Authorizer"):
        raise_for(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
