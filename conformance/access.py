"""A broker of either side that is secured: its listeners and settings, the users, and a client's way in."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from support.servers.cluster import ServerError, free_port
from support.servers.tls_trial import Trial

#: The user that suites of ours come as; its certificate is called the same.
USER, PASSWORD = "walker", "with, commas = and spaces"
#: A user of whom ACLs are asked, and those that other projects' tests come as.
OTHER_USERS = {"guest": "guest", "test": "test", "test2": "test2", "alice": "alice-secret", "admin": "admin"}
SCRAM_MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
TIMEOUT_S = 20
_SECURITY = "org.apache.kafka.common.security"


class Way(enum.Enum):
    """How a suite's clients come to the broker."""

    OPEN = "plaintext, to a broker without any security"
    PLAINTEXT = "plaintext, to a secured broker"
    SASL_SSL = "SASL_SSL with SCRAM-SHA-512"
    MUTUAL = "mutual TLS"


class Listener(enum.Enum):
    """The listeners of a secured broker beside its plaintext one, and what they speak."""

    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"
    SSL = "SSL"
    MUTUAL = "MUTUAL"

    @property
    def protocol(self) -> str:
        return "SSL" if self is Listener.MUTUAL else self.value


@dataclass(frozen=True, slots=True)
class Access:
    """The addresses of a secured broker's listeners, and the files of a client that has a certificate."""

    addresses: Mapping[Listener, str]
    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def create(cls, directory: Path) -> Access:
        """Choose the ports, and make certificates in a directory."""
        trial = Trial.create(directory)
        client = trial.client(USER)
        trial.write("node", trial.node())
        files = {"certificate": client.chain_pem(), "key": client.key_pem()}
        for name, text in files.items():
            (directory / f"{name}.pem").write_bytes(text)
        addresses = {listener: f"127.0.0.1:{free_port()}" for listener in Listener}
        return cls(addresses, trial.ca, directory / "certificate.pem", directory / "key.pem")

    def encrypted_key(self, password: str) -> bytes:
        """The client's key as PEM under a password."""
        key = load_pem_private_key(self.key.read_bytes(), None)
        encryption = BestAvailableEncryption(password.encode())
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def environment(self, way: Way) -> Mapping[str, str]:
        """The variables that tell programs their way in over TLS."""
        tls = {"WALK_CA": str(self.ca)}
        if way is Way.MUTUAL:
            return {**tls, "WALK_CERTIFICATE": str(self.certificate), "WALK_KEY": str(self.key)}
        return {**tls, "WALK_USER": USER, "WALK_PASSWORD": PASSWORD}

    def librdkafka(self, way: Way) -> Mapping[str, str]:
        """The same as librdkafka's properties."""
        match way:
            case Way.OPEN | Way.PLAINTEXT:
                return {}
            case Way.SASL_SSL:
                return {
                    "security.protocol": "SASL_SSL",
                    "ssl.ca.location": str(self.ca),
                    "sasl.mechanism": "SCRAM-SHA-512",
                    "sasl.username": USER,
                    "sasl.password": PASSWORD,
                }
            case Way.MUTUAL:
                return {
                    "security.protocol": "SSL",
                    "ssl.ca.location": str(self.ca),
                    "ssl.certificate.location": str(self.certificate),
                    "ssl.key.location": str(self.key),
                }

    def settings(self) -> Mapping[str, str]:
        """The broker's settings, beside `listeners`; its own requests to itself are in plaintext."""
        protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT"}
        protocols |= {listener.value: listener.protocol for listener in Listener}
        settings = {
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM_MECHANISMS)),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.ca.with_name("node.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/,DEFAULT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER};User:admin",
            "allow.everyone.if.no.acl.found": "true",
            "delegation.token.secret.key": "of this broker alone",
        }
        users = " ".join(f'user_{name}="{password}"' for name, password in _all_users().items())
        for listener in (Listener.SASL_PLAINTEXT, Listener.SASL_SSL):
            begin = f"listener.name.{listener.value.lower()}"
            settings[f"{begin}.plain.sasl.jaas.config"] = (
                f"{_SECURITY}.plain.PlainLoginModule required {users};"
            )
            for mechanism in SCRAM_MECHANISMS:
                settings[f"{begin}.{mechanism.lower()}.sasl.jaas.config"] = (
                    f"{_SECURITY}.scram.ScramLoginModule required;"
                )
        return settings

    def listeners(self) -> str:
        """The value of `listeners` for all but the plaintext one and the controller's."""
        return ",".join(f"{listener.value}://{address}" for listener, address in self.addresses.items())


def add_users(bootstrap: str) -> None:
    """Give every user credentials of SCRAM, over the plaintext listener. Raises ServerError."""
    try:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
        for name, password in _all_users().items():
            for mechanism in SCRAM_MECHANISMS.values():
                info = ScramCredentialInfo(mechanism, 4096)
                upsertion = UserScramCredentialUpsertion(name, info, password.encode())
                admin.alter_user_scram_credentials([upsertion])[name].result(TIMEOUT_S)
    except (KafkaException, TimeoutError) as error:
        raise ServerError(f"no users of SCRAM: {error}") from error


def _all_users() -> Mapping[str, str]:
    return {USER: PASSWORD, **OTHER_USERS}
