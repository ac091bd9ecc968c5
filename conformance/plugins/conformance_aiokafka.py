"""What aiokafka's conftest makes with docker, for a broker that runs already: CONFORMANCE_BROKER, host:port.

Imported at the end of a copy of that conftest, these fixtures replace those of the same name. Every test
class gets all of them; what this broker has not (TLS, SASL, an authorizer) skips the test that touches it.
"""

import os
from dataclasses import dataclass

import pytest

NO_TLS = "needs a listener with TLS"
NO_SASL = "needs a listener with SASL"
NO_ACLS = "needs an authorizer, and sets it up through ZooKeeper"


class Missing:
    """Stands for something that is not there: whatever is done with it skips the test."""

    def __init__(self, reason):
        self._reason = reason

    def _skip(self, *_):
        pytest.skip(self._reason)

    __getattr__ = __truediv__ = __str__ = __format__ = __int__ = __index__ = __fspath__ = _skip


@dataclass
class RunningBroker:
    host: str
    port: int
    ssl_port: Missing
    sasl_plain_port: Missing
    sasl_ssl_port: Missing

    @property
    def hosts(self):
        return [f"{self.host}:{self.port}"]


@pytest.fixture(scope="session")
def kafka_server():
    host, _, port = os.environ["CONFORMANCE_BROKER"].rpartition(":")
    return RunningBroker(host, int(port), Missing(NO_TLS), Missing(NO_SASL), Missing(NO_SASL))


@pytest.fixture(scope="session")
def ssl_folder():
    return Missing(NO_TLS)


@pytest.fixture(scope="class")
def acl_manager():
    return Missing(NO_ACLS)


@pytest.fixture(scope="class")
def kafka_config():
    return Missing(NO_SASL)


@pytest.fixture(scope="class")
def kerberos_utils():
    return Missing(NO_SASL)
