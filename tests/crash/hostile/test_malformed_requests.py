"""Bytes that no client should send: the broker answers or hangs up, and serves other clients meanwhile."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.apis import ApiKey, request_class
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Struct
from support.clients.wire import TIMEOUT_S, WireClient, batch, produce_request
from support.protocol.messages import random_message, tame_message
from support.servers.ottla_broker import OttlaBroker

TOPIC = "witness"
MAX_REQUEST_BYTES = 1 << 20
MAX_GROWTH_BYTES = 64 << 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBroker]:
    """One broker for all abuses, which takes requests of at most 1 MiB."""
    settings = {"socket.request.max.bytes": str(MAX_REQUEST_BYTES)}
    with OttlaBroker.start(tmp_path_factory.mktemp("malformed") / "data", settings=settings) as running:
        with WireClient.connect(running.bootstrap) as client:
            client.create_topic(TOPIC)
        yield running
        running.stop()
        # no request ended in an exception of the broker
        assert "Traceback" not in running.server.log_path.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def others_are_served(broker: OttlaBroker) -> Iterator[None]:
    """A client that was there before the abuse and one that comes after it both write and read."""
    pid = broker.pid
    with WireClient.connect(broker.bootstrap) as before:
        first = before.produce(TOPIC, 0, batch()).base_offset
        yield
        with WireClient.connect(broker.bootstrap) as after:
            for client in (before, after):
                answer = client.produce(TOPIC, 0, batch(3))
                assert answer.error_code == 0
                read = client.fetch(TOPIC, [0], answer.base_offset)[0]
                assert read.error_code == 0
                assert read.high_watermark >= answer.base_offset + 3 > first
    assert broker.server.running
    assert broker.pid == pid


@contextmanager
def connection(broker: OttlaBroker) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", broker.port), timeout=TIMEOUT_S) as open_connection:
        yield open_connection


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, correlation_id: int = 7, client_id: bytes = b"odd") -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id


def hangs_up(link: socket.socket) -> bool:
    """Whether the broker closes the connection; False when it sends something instead."""
    try:
        return link.recv(1) == b""
    except ConnectionResetError:
        return True


def send_quietly(link: socket.socket, data: bytes) -> None:
    """Send what the broker takes before it hangs up."""
    try:
        link.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return


def read_frame(link: socket.socket) -> bytes:
    return WireClient(link).receive_frame()


@pytest.mark.parametrize("size", [0, -1, -(2**31), MAX_REQUEST_BYTES + 1, 2**31 - 1, 0x47455420])
def test_a_frame_of_an_impossible_size_ends_the_connection(broker: OttlaBroker, size: int) -> None:
    with connection(broker) as link:
        link.sendall(struct.pack(">i", size))
        assert hangs_up(link)


def test_another_protocol_ends_the_connection(broker: OttlaBroker) -> None:
    tls_client_hello = bytes.fromhex("16030100c8010000c40303") + bytes(200)
    for greeting in (b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", tls_client_hello, b"SSH-2.0-OpenSSH_9.6\r\n"):
        with connection(broker) as link:
            send_quietly(link, greeting)
            assert hangs_up(link)


def test_random_bytes_end_in_an_answer_or_a_hang_up(broker: OttlaBroker) -> None:
    dice = random.Random(20)
    for _ in range(300):
        with connection(broker) as link:
            send_quietly(link, frame(dice.randbytes(dice.randrange(1, 200))))
            link.shutdown(socket.SHUT_WR)
            while chunk := _receive(link):
                assert len(chunk) <= 65536


def _receive(link: socket.socket) -> bytes:
    try:
        return link.recv(65536)
    except ConnectionResetError:
        return b""


def test_unknown_api_keys_and_versions_end_the_connection(broker: OttlaBroker) -> None:
    cases = [(999, 0), (-1, 0), (32767, 32767), (ApiKey.METADATA, 99), (ApiKey.METADATA, -1)]
    cases += [(ApiKey.FETCH, 3), (ApiKey.FETCH, 100), (ApiKey.PRODUCE, 14)]
    for api_key, version in cases:
        with connection(broker) as link:
            link.sendall(frame(header(api_key, version) + bytes(50)))
            assert hangs_up(link), (api_key, version)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_in_the_old_formats_is_refused_though_advertised(broker: OttlaBroker, version: int) -> None:
    with connection(broker) as link:
        link.sendall(frame(header(ApiKey.PRODUCE, version) + struct.pack(">hii", 1, 1000, 0)))
        assert hangs_up(link)


def test_api_versions_of_a_future_version_is_answered_in_version_0(broker: OttlaBroker) -> None:
    with connection(broker) as link:
        link.sendall(frame(header(ApiKey.API_VERSIONS, 120) + b"\x00\x01\x00"))
        answer = read_frame(link)
        correlation_id, error_code = struct.unpack_from(">ih", answer)
        assert (correlation_id, error_code) == (7, 35)
        # and the connection goes on, as clients that fall back to version 0 expect
        link.sendall(frame(encode_request(ApiKey.API_VERSIONS, 0, 8, "odd", ApiVersionsRequest())))
        assert struct.unpack_from(">ih", read_frame(link)) == (8, 0)


def test_every_cut_of_a_request_ends_in_a_hang_up(broker: OttlaBroker) -> None:
    whole = encode_request(ApiKey.PRODUCE, 9, 1, "cutter", produce_request(TOPIC, 0, batch()))
    metadata = encode_request(
        ApiKey.METADATA, 12, 1, "cutter", MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    )
    for request in (whole[:80], metadata):
        for kept in range(1, len(request) - 1, 3):
            with connection(broker) as link:
                send_quietly(link, frame(request[:kept]))
                assert hangs_up(link), kept


def test_bytes_behind_a_request_are_ignored_as_kafka_does(broker: OttlaBroker) -> None:
    request = encode_request(ApiKey.METADATA, 12, 6, "odd", MetadataRequest(topics=[]))
    with connection(broker) as link:
        link.sendall(frame(request + bytes(100)) * 2)
        assert [struct.unpack_from(">i", read_frame(link))[0] for _ in range(2)] == [6, 6]


@pytest.mark.parametrize("layout", [">i", ">h"])
def test_counts_that_lie_cost_no_memory(broker: OttlaBroker, layout: str) -> None:
    # given requests whose arrays and strings claim as much as their fields hold
    before = resident_bytes(broker)
    claims = [struct.pack(">i", 2**31 - 1), b"\xff\xff\xff\xff\x0f", struct.pack(layout, -2), b"\x7f\xff"]
    # when
    for api_key, version in (
        (ApiKey.METADATA, 1),
        (ApiKey.METADATA, 12),
        (ApiKey.FETCH, 4),
        (ApiKey.PRODUCE, 3),
    ):
        for claim in claims:
            for lead in (0, 2, 4, 8, 16, 21):
                with connection(broker) as link:
                    send_quietly(link, frame(header(api_key, version) + bytes(lead) + claim + bytes(30)))
                    link.shutdown(socket.SHUT_WR)
                    while _receive(link):
                        pass
    # then
    assert resident_bytes(broker) - before < MAX_GROWTH_BYTES


def test_claimed_sizes_cost_no_memory_until_the_bytes_come(broker: OttlaBroker) -> None:
    # given
    before = resident_bytes(broker)
    links = [socket.create_connection(("127.0.0.1", broker.port), timeout=TIMEOUT_S) for _ in range(200)]
    # when each claims 1 MiB and sends ten bytes of it
    for link in links:
        link.sendall(struct.pack(">i", MAX_REQUEST_BYTES) + header(ApiKey.PRODUCE, 9)[:6])
    with WireClient.connect(broker.bootstrap) as client:
        client.topic_metadata(TOPIC)  # an answer here says that what came before has been read
    grown = resident_bytes(broker) - before
    # then
    for link in links:
        link.close()
    assert grown < MAX_GROWTH_BYTES


def resident_bytes(broker: OttlaBroker) -> int:
    status = Path(f"/proc/{broker.pid}/status")
    if not status.exists():
        pytest.skip("the memory of another process can't be read here")
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def test_half_open_connections_hold_up_no_other_client(broker: OttlaBroker) -> None:
    links = []
    for sent in (b"", b"\x00", b"\x00\x00\x01", frame(header(ApiKey.METADATA, 1))[:9]):
        for _ in range(50):
            link = socket.create_connection(("127.0.0.1", broker.port), timeout=TIMEOUT_S)
            link.sendall(sent)
            links.append(link)
    with WireClient.connect(broker.bootstrap) as client:
        assert client.topic_metadata(TOPIC).topics[0].error_code == 0
    # half of them reset, half just close
    for number, link in enumerate(links):
        if number % 2:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()


def test_a_client_that_has_said_its_last_still_gets_the_answer(broker: OttlaBroker, unique_name: str) -> None:
    new = CreatableTopic(name=unique_name, num_partitions=1, replication_factor=1)
    with WireClient.connect(broker.bootstrap) as client:
        request = CreateTopicsRequest(topics=[new])
        sent = client.send(request)
        client.connection.shutdown(socket.SHUT_WR)
        assert client.receive(request, sent).topics[0].error_code == 0
        assert client.is_closed_by_the_broker()


def test_a_wait_for_records_ends_with_its_client(broker: OttlaBroker) -> None:
    # given a fetch that would wait for a day
    with WireClient.connect(broker.bootstrap) as client:
        end = client.produce(TOPIC, 0, batch()).base_offset + 1
        partition = FetchPartition(partition=0, fetch_offset=end, partition_max_bytes=1000)
        topic = FetchTopic(topic=TOPIC, partitions=[partition])
        client.send(FetchRequest(max_wait_ms=86_400_000, min_bytes=1, topics=[topic]), 12)
        # when
        client.connection.shutdown(socket.SHUT_WR)
        # then
        assert client.is_closed_by_the_broker()


def test_a_client_that_reads_no_answers_is_not_read_from_either(broker: OttlaBroker) -> None:
    # given a client that asks and asks, and never reads
    request = frame(encode_request(ApiKey.API_VERSIONS, 0, 1, "deaf", ApiVersionsRequest()))
    before = resident_bytes(broker)
    with connection(broker) as link:
        link.settimeout(2)
        sent = 0
        try:
            while sent < 64 << 20:
                sent += link.send(request * 1000)
        except TimeoutError:
            pass
        # then the broker stopped reading long before it had taken everything, and kept its memory
        assert sent < 64 << 20
        assert resident_bytes(broker) - before < MAX_GROWTH_BYTES
        with WireClient.connect(broker.bootstrap) as client:
            assert client.topic_metadata(TOPIC).topics[0].error_code == 0


def test_many_requests_in_one_packet_are_answered_in_order(broker: OttlaBroker) -> None:
    requests = b"".join(
        frame(encode_request(ApiKey.API_VERSIONS, 0, number, "eager", ApiVersionsRequest()))
        for number in range(500)
    )
    with WireClient.connect(broker.bootstrap) as client:
        # sent a byte short of whole frames now and then
        for start in range(0, len(requests), 1009):
            client.connection.sendall(requests[start : start + 1009])
        for number in range(500):
            assert struct.unpack_from(">i", client.receive_frame())[0] == number


def flipped(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randrange(1, 6)):
        changed[dice.randrange(8, len(changed))] = dice.randrange(256)
    return bytes(changed)


def inserted(data: bytes, dice: random.Random) -> bytes:
    position = dice.randrange(8, len(data))
    return data[:position] + dice.randbytes(dice.randrange(1, 30)) + data[position:]


def cut(data: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(8, len(data))
    return data[:start] + data[start + dice.randrange(1, 20) :]


@pytest.mark.parametrize("spoil", [flipped, inserted, cut])
def test_spoiled_requests_of_every_api_end_in_an_answer_or_a_hang_up(
    broker: OttlaBroker, spoil: Callable[[bytes, random.Random], bytes]
) -> None:
    dice = random.Random(spoil.__name__)
    with WireClient.connect(broker.bootstrap) as client:
        served = client.call(ApiVersionsRequest(), 0).api_keys
    for api in served:
        for version in {api.min_version, api.max_version}:
            request = sample_request(api.api_key, version)
            for _ in range(8):
                with connection(broker) as link:
                    send_quietly(link, frame(spoil(request, dice)))
                    link.shutdown(socket.SHUT_WR)
                    while _receive(link):
                        pass


def sample_request(api_key: int, version: int) -> bytes:
    """A request as a client would send it; of most APIs one with all its defaults."""
    if api_key == ApiKey.PRODUCE:
        request = produce_request(TOPIC, 0, batch(5))
        if version < 3 or version > 12:
            version = 9
    else:
        request = request_class(ApiKey(api_key))()
    return encode_request(ApiKey(api_key), version, 3, "spoiler", request)


NAMES = ("victim", "nonsense", "__consumer_offsets", "__cluster_metadata", "", "..", "a/b", "x" * 300)
NUMBERS = (0, 0, 1, 1, -1, 2, 100)


def make_plausible(message: Struct, dice: random.Random) -> None:
    """Put names and numbers that exist in many places of a message, so that it gets past the first checks."""
    for field in type(message).FIELDS:
        value = getattr(message, field.name)
        setattr(message, field.name, _plausible(value, dice))


def _plausible(value: Any, dice: random.Random) -> Any:
    match value:
        case Struct():
            make_plausible(value, dice)
        case list():
            return [_plausible(each, dice) for each in value]
        case bool():
            pass
        case str() if dice.random() < 0.7:
            return dice.choice(NAMES)
        case int() if dice.random() < 0.6:
            return dice.choice(NUMBERS)
        case bytes() if dice.random() < 0.5:
            return batch(2, producer_id=dice.choice((-1, 5)), producer_epoch=0, base_sequence=1)
    return value


@pytest.mark.slow
def test_well_formed_nonsense_of_every_api_is_answered_or_refused(broker: OttlaBroker) -> None:
    dice = random.Random(3)
    with WireClient.connect(broker.bootstrap) as client:
        client.create_topic("victim")
        served = client.call(ApiVersionsRequest(), 0).api_keys
    for _ in range(12):
        for api in served:
            if api.api_key == ApiKey.UNREGISTER_BROKER:
                continue  # it does what it says, to the only broker
            message_class = request_class(ApiKey(api.api_key))
            version = dice.randint(max(api.min_version, message_class.MIN_VERSION), api.max_version)
            make = dice.choice((random_message, tame_message))
            message = make(message_class, version, dice)
            make_plausible(message, dice)
            try:
                request = encode_request(ApiKey(api.api_key), version, 3, dice.choice((None, "odd")), message)
            except (ValueError, struct.error):
                continue  # a value that does not fit its field
            with connection(broker) as link:
                link.settimeout(0.3)
                send_quietly(link, frame(request))
                with contextlib.suppress(TimeoutError):  # acks=0 has no answer, a join may wait for long
                    _receive(link)
