"""What aiokafka's conftest makes with docker, for a broker that runs already.

CONFORMANCE_BROKER is its address; CONFORMANCE_SSL, CONFORMANCE_SASL_PLAINTEXT and CONFORMANCE_SASL_SSL are
those of its other listeners. CONFORMANCE_SSL_FOLDER has a client's certificate by the names that the tests
look for. CONFORMANCE_ADMINISTER is the command, as JSON, that makes ACLs and users, in place of Kafka's own
programs inside the container. Imported at the end of a copy of that conftest, these fixtures replace those of
the same name. There is no Kerberos here: whatever is done with it skips the test.
"""

import json
import os
import pathlib
import subprocess
from dataclasses import dataclass

import pytest

NO_KERBEROS = "needs Kerberos, which ottla does not provide for"


class Missing:
    """Stands for something that is not there: whatever is done with it skips the test."""

    def __init__(self, reason):
        self._reason = reason

    def __getattr__(self, _name):
        pytest.skip(self._reason)


@dataclass
class RunningBroker:
    host: str
    port: int
    ssl_port: int
    sasl_plain_port: int
    sasl_ssl_port: int

    @property
    def hosts(self):
        return [f"{self.host}:{self.port}"]


def _port(variable):
    return int(os.environ[variable].rpartition(":")[2])


def _administer(command, words):
    program = json.loads(os.environ["CONFORMANCE_ADMINISTER"])
    environment = {**os.environ, "PYTHONPATH": os.environ["CONFORMANCE_ADMINISTER_PATH"]}
    subprocess.run([*program, command, json.dumps(words)], check=True, timeout=60, env=environment)


class Acls:
    """What the tests ask of their ACLManager."""

    def __init__(self):
        self._active = []

    def add_acl(self, **words):
        _administer("add-acl", words)
        self._active.append(words)

    def remove_acl(self, **words):
        _administer("remove-acl", words)
        self._active.remove(words)

    def list_acl(self):
        return list(self._active)

    def cleanup(self):
        for words in self._active[:]:
            self.remove_acl(**words)


class Users:
    """What the tests ask of their KafkaConfig."""

    def add_scram_user(self, username, password):
        _administer("add-user", {"name": username, "password": password})


@pytest.fixture(scope="session")
def kafka_server():
    host = os.environ["CONFORMANCE_BROKER"].rpartition(":")[0]
    names = ("BROKER", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    return RunningBroker(host, *(_port(f"CONFORMANCE_{name}") for name in names))


@pytest.fixture(scope="session")
def ssl_folder():
    return pathlib.Path(os.environ["CONFORMANCE_SSL_FOLDER"])


@pytest.fixture(scope="class")
def acl_manager():
    return Acls()


@pytest.fixture(scope="class")
def kafka_config():
    return Users()


@pytest.fixture(scope="class")
def kerberos_utils():
    return Missing(NO_KERBEROS)
