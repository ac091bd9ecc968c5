"""The brokers that kafka-python's tests start by themselves, for one that runs already.

KAFKA_URI, by which the tests find a running broker, is taken away: it also switches off those of logins.
CONFORMANCE_BROKER, CONFORMANCE_SSL and CONFORMANCE_SASL_PLAINTEXT are the addresses of the listeners, and
CONFORMANCE_CA is the file of the authority's certificate. Imported at the end of a copy of the tests'
conftest, the fixture replaces that of the same name.
"""

import os

import pytest
from kafka import KafkaAdminClient
from test.integration.fixtures import KafkaFixture, client_params

LISTENERS = {"PLAINTEXT": "BROKER", "SSL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT"}
PARTITIONS = 4

os.environ.pop("KAFKA_URI", None)


class RunningBroker(KafkaFixture):
    """One listener of the running broker."""

    def __init__(self, transport, sasl_mechanism):
        host, _, port = os.environ[f"CONFORMANCE_{LISTENERS[transport]}"].rpartition(":")
        super().__init__(
            host,
            int(port),
            0,
            transport=transport,
            sasl_mechanism=sasl_mechanism,
            partitions=PARTITIONS,
            external=True,
        )
        self.ssl_dir = os.path.dirname(os.environ["CONFORMANCE_CA"])

    def start(self):
        """It runs already."""

    def get_topic_names(self):
        """By a client; the tests run Kafka's own program."""
        with KafkaAdminClient(**client_params(self)) as admin:
            return admin.list_topics()


def running_broker(_broker_id=0, transport="PLAINTEXT", sasl_mechanism=None, **_options):
    """Stands for KafkaFixture.instance, which some tests call."""
    return RunningBroker(transport, sasl_mechanism)


KafkaFixture.instance = staticmethod(running_broker)


@pytest.fixture(scope="module")
def kafka_broker_factory():
    return lambda **options: running_broker(**options)
