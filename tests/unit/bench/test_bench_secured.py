"""The secured broker of the benchmarks, and the client that connects to it many times."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest
from bench import secured, secured_client
from bench.errors import BenchError
from bench.scenarios import SCENARIOS, authorized
from bench.secured import Security
from bench.secured_client import Login
from bench.servers import System

from ottla.core.security.acls import AclOperation
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import decode_request_header, encode_response
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from support.clients.wire import WireClient

TOPIC = "bench"


def test_scram_of_the_client_is_that_of_the_rfc():
    # given the example of RFC 7677
    login = Login("user", "pencil")
    nonce = "rOprNGfwEbeRWgbNEkqO"
    assert login.client_first(nonce) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    server_first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    # when the client answers
    final, expected = login.client_final(nonce, server_first)
    # then it is the example's proof, and the server's signature is expected
    assert final.endswith(b"k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert expected == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_server_that_does_not_continue_the_nonce_is_refused():
    with pytest.raises(BenchError):
        Login("user", "pencil").client_final("mine", b"r=other,s=" + base64.b64encode(b"salt") + b",i=4096")


def test_the_metadata_request_and_its_answer_are_the_protocols():
    frame = secured_client.metadata_frame(["a", "long-name"])
    assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
    header, position = decode_request_header(frame[4:])
    assert (header.api_key, header.api_version) == (ApiKey.METADATA, 8)
    asked = MetadataRequest.decode(frame[4:], 8, position)
    assert [topic.name for topic in asked.topics or ()] == ["a", "long-name"]
    assert not asked.allow_auto_topic_creation
    # given an answer with two brokers and two topics
    answer = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=1, host="localhost", port=9092, rack=None),
            MetadataResponseBroker(node_id=2, host="elsewhere", port=9092, rack="r"),
        ],
        cluster_id="cluster",
        controller_id=1,
        topics=[MetadataResponseTopic(error_code=0, name="a"), MetadataResponseTopic(error_code=3, name="b")],
    )
    encoded = encode_response(ApiKey.METADATA, 8, 1, answer)
    # then two topics are found, and no other number
    secured_client.check_metadata(encoded, 2)
    with pytest.raises(BenchError):
        secured_client.check_metadata(encoded, 3)
    # and an error of the first topic is one
    answer.topics[0].error_code = 29
    with pytest.raises(BenchError):
        secured_client.check_metadata(encode_response(ApiKey.METADATA, 8, 1, answer), 2)


def test_connections_are_made_to_a_secured_broker_and_may_do_what_acls_say(tmp_path: Path):
    acls = [*secured.acls_of_the_user(TOPIC), *secured.acls_of_others(5)]
    with secured.serve(System.OTTLA, tmp_path / "secured", Security(acls=acls)) as server:
        with WireClient.connect(server.server.bootstrap) as admin:
            admin.create_topic(TOPIC)
            admin.create_topic("other")
        client = secured.connecting_client(server)
        # when five connect, two at a time
        connections = client.connect(5, 2)
        # then each has logged in, and may see its own topic alone
        assert len({connection.fileno() for connection in connections}) == 5
        for connection in connections:
            answer = secured_client.ask(connection, secured_client.metadata_frame([TOPIC]))
            secured_client.check_metadata(answer, 1)
            refused = secured_client.ask(connection, secured_client.metadata_frame(["other"]))
            with pytest.raises(BenchError, match="error 29"):
                secured_client.check_metadata(refused, 1)
            connection.close()
        # and a wrong password is told
        with pytest.raises(BenchError, match="SaslAuthenticate"):
            replace(client, login=Login(secured.USER, "wrong")).connect(1, 1)


def test_acls_of_others_are_the_same_with_each_call_and_never_the_users():
    assert secured.acls_of_others(200) == secured.acls_of_others(200)
    assert all(acl.principal != f"User:{secured.USER}" for acl in secured.acls_of_others(200))


def test_metadata_is_asked_for_under_as_many_acls_as_its_table_says():
    topics = [f"topic-{number}" for number in range(authorized.TOPICS)]
    for acls, own in (
        (authorized.acls_on_one_prefix("topic-"), 1),
        (authorized.acls_on_each_topic(topics), len(topics)),
    ):
        users = [acl for acl in acls if acl.principal == f"User:{secured.USER}"]
        assert len(users) == own and all(acl.operation == AclOperation.DESCRIBE for acl in users)
        assert len({str(acl) for acl in acls}) == len(acls) == authorized.ACLS_ON_TOPICS + own
    assert f"{authorized.ACLS_ON_TOPICS:,}" in SCENARIOS["metadata-under-acls"].method
