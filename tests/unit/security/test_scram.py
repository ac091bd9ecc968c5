"""SCRAM: the RFC's vectors, independent clients, unknown users, malformed messages, delegation tokens."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

import pytest
from kafka.net.sasl.scram import ScramClient

from ottla.core.security.principals import KafkaPrincipal
from ottla.core.security.sasl.mechanism import Authenticated, Challenge, Outcome, Refused
from ottla.core.security.sasl.scram import (
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    TokenCredential,
    credential_of,
)

ALICE = KafkaPrincipal("User", "alice")
NONCE = "3rfcNHYJY1ZVvWVs7j"


@dataclass
class Credentials:
    """Credentials of users and tokens in memory."""

    users: dict[tuple[ScramMechanism, str], ScramCredential] = field(default_factory=dict)
    tokens: dict[str, TokenCredential] = field(default_factory=dict)
    salt_secret: bytes = b"of the cluster"

    def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        return self.users.get((mechanism, name))

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        return self.tokens.get(token_id)

    def add(self, mechanism: ScramMechanism, name: str, password: str, iterations: int = 4096) -> None:
        salt = b"salt of " + name.encode()
        salted = mechanism.salted_password(password.encode(), salt, iterations)
        self.users[(mechanism, name)] = credential_of(mechanism, salt, salted, iterations)


def first_of(exchange: ScramExchange, message: str | bytes) -> str:
    outcome = exchange.respond(message.encode() if isinstance(message, str) else message)
    assert isinstance(outcome, Challenge)
    return outcome.data.decode()


def exchanged(credentials: Credentials, mechanism: ScramMechanism, user: str, password: str) -> Outcome:
    """The verdict on kafka-python's client."""
    sasl_name = user.replace("=", "=3D").replace(",", "=2C")  # kafka-python does not escape it
    client = ScramClient(sasl_name, password, mechanism.mechanism_name)
    exchange = ScramExchange(mechanism, credentials, NONCE)
    client.process_server_first_message(first_of(exchange, client.first_message()).encode())
    outcome = exchange.respond(client.final_message())
    if isinstance(outcome, Authenticated):
        client.process_server_final_message(outcome.data)  # checks the server's signature
    return outcome


def test_the_vector_of_rfc_7677() -> None:
    mechanism, salt = ScramMechanism.SHA_256, base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credentials = Credentials()
    salted = mechanism.salted_password(b"pencil", salt, 4096)
    credentials.users[(mechanism, "user")] = credential_of(mechanism, salt, salted, 4096)
    exchange = ScramExchange(mechanism, credentials, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert first_of(exchange, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.respond(final.encode()) == Authenticated(
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", KafkaPrincipal("User", "user")
    )
    assert isinstance(exchange.respond(final.encode()), Refused)  # the end is the end


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("user", ["alice", "CN=a,OU=b", "a=2Cb", "x" * 200])
def test_an_independent_client_and_the_server_prove_themselves(mechanism: ScramMechanism, user: str) -> None:
    credentials = Credentials()
    credentials.add(mechanism, user, "a pass,word=ü", 8192)
    outcome = exchanged(credentials, mechanism, user, "a pass,word=ü")
    assert isinstance(outcome, Authenticated)
    assert outcome.principal == KafkaPrincipal("User", user)
    assert isinstance(exchanged(credentials, mechanism, user, "another"), Refused)


def test_a_credential_of_the_other_mechanism_does_not_count() -> None:
    credentials = Credentials()
    credentials.add(ScramMechanism.SHA_256, "alice", "secret")
    assert isinstance(exchanged(credentials, ScramMechanism.SHA_512, "alice", "secret"), Refused)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_an_unknown_user_is_answered_like_any_other(mechanism: ScramMechanism) -> None:
    credentials = Credentials()
    credentials.add(mechanism, "alice", "secret")
    answers = [first_of(ScramExchange(mechanism, credentials, NONCE), "n,,n=mallory,r=abc") for _ in range(2)]
    assert answers[0] == answers[1]
    other = first_of(ScramExchange(mechanism, credentials, NONCE), "n,,n=eve,r=abc")
    assert other != answers[0] and len(other) == len(answers[0])
    assert answers[0].endswith(",i=4096")
    elsewhere = Credentials(salt_secret=b"of another cluster")
    assert first_of(ScramExchange(mechanism, elsewhere, NONCE), "n,,n=mallory,r=abc") != answers[0]
    refused = exchanged(credentials, mechanism, "mallory", "secret")
    wrong = exchanged(credentials, mechanism, "alice", "wrong")
    assert isinstance(refused, Refused) and isinstance(wrong, Refused)
    assert refused.told is None and wrong.told is None


def test_a_credential_with_too_few_iterations_is_not_used() -> None:
    credentials = Credentials()
    credentials.add(ScramMechanism.SHA_256, "alice", "secret", 4095)
    assert isinstance(exchanged(credentials, ScramMechanism.SHA_256, "alice", "secret"), Refused)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"n,,", b"n,,n=alice", b"n,,r=abc", b"y,,n=alice,r=abc", b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=al=ice,r=abc", b"n,,n=,r=abc", b"n,,n=alice,r=", b"n,,n=alice,r=a b", b"n,,n=alice,r=abc,",
        b"n,,n=\xff,r=abc", "n,,n=ä,r=abc".encode(), b"n,,n=alice,r=abc,x1=2",
        b"n,,n=alice,r=" + b"a" * 70_000,
    ],
)  # fmt: skip
def test_a_malformed_first_message_is_refused(message: bytes) -> None:
    assert isinstance(ScramExchange(ScramMechanism.SHA_256, Credentials(), NONCE).respond(message), Refused)


def test_extensions_and_reserved_attributes_are_part_of_the_proof() -> None:
    credentials = Credentials()
    credentials.add(ScramMechanism.SHA_256, "alice", "secret")
    exchange = ScramExchange(ScramMechanism.SHA_256, credentials, NONCE)
    assert first_of(exchange, "n,a=alice,m=more,n=alice,r=abc,foo=bar").startswith("r=abc" + NONCE)


@pytest.mark.parametrize("change", ["nonce", "channel", "proof", "authorization id"])
def test_a_changed_final_message_is_refused(change: str) -> None:
    mechanism, credentials = ScramMechanism.SHA_256, Credentials()
    credentials.add(mechanism, "alice", "secret")
    client = ScramClient("alice", "secret", mechanism.mechanism_name)
    exchange = ScramExchange(mechanism, credentials, NONCE)
    first = client.first_message()
    if change == "authorization id":
        first = first.replace(b"n,,", b"n,a=bob,")
    client.process_server_first_message(first_of(exchange, first).encode())
    final = client.final_message().decode()
    match change:
        case "nonce":  # replayed, with the nonce of another exchange
            final = final.replace(NONCE, NONCE[::-1])
        case "channel":
            final = final.replace("c=biws", "c=eSws")
        case "proof":
            final = final[: final.index(",p=")] + ",p=" + base64.b64encode(bytes(31)).decode()
    assert isinstance(exchange.respond(final.encode()), Refused)


@pytest.mark.parametrize(
    ("nonce", "is_in"), [("abc" + NONCE, True), ("abcabc" + NONCE, True), ("abc", False)]
)
def test_older_clients_say_their_own_nonce_twice(nonce: str, is_in: bool) -> None:
    """librdkafka before 2.6.1; the proof is over what they say."""
    mechanism, credentials = ScramMechanism.SHA_256, Credentials()
    credentials.add(mechanism, "alice", "secret")
    credential = credentials.users[mechanism, "alice"]
    salted = mechanism.salted_password(b"secret", credential.salt, credential.iterations)
    exchange = ScramExchange(mechanism, credentials, NONCE)
    server_first = first_of(exchange, "n,,n=alice,r=abc")
    without_proof = f"c=biws,r={nonce}"
    text = f"n=alice,r=abc,{server_first},{without_proof}".encode()
    signature = mechanism.hmac(credential.stored_key, text)
    client_key = mechanism.hmac(salted, b"Client Key")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    outcome = exchange.respond(f"{without_proof},p={proof}".encode())
    assert isinstance(outcome, Authenticated if is_in else Refused)


def test_a_delegation_token_proves_its_owner() -> None:
    mechanism, credentials = ScramMechanism.SHA_256, Credentials()
    hmac_text = base64.b64encode(b"hmac of the token").decode()
    credentials.add(mechanism, "token-id", hmac_text)
    made = credentials.users.pop((mechanism, "token-id"))
    credentials.tokens["token-id"] = TokenCredential(made, ALICE, 5_000)

    def run(extensions: bytes, name: str = "token-id") -> Outcome:
        client = ScramClient(name, hmac_text, mechanism.mechanism_name)
        first = client.first_message() + extensions
        client.auth_message += extensions
        exchange = ScramExchange(mechanism, credentials, NONCE)
        client.process_server_first_message(first_of(exchange, first).encode())
        return exchange.respond(client.final_message())

    outcome = run(b",tokenauth=true")
    assert isinstance(outcome, Authenticated)
    assert outcome.principal == ALICE._replace(token_authenticated=True)
    assert outcome.expires_at_ms == 5_000
    assert isinstance(run(b""), Refused)
    assert isinstance(run(b",tokenauth=true", "no-token"), Refused)


def test_a_credential_is_not_printed() -> None:
    credentials = Credentials()
    credentials.add(ScramMechanism.SHA_256, "alice", "secret")
    assert str(credentials.users.popitem()[1]) == "ScramCredential([hidden])"
