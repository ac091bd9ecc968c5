"""kcat, the command-line client: every mode of it, by what it prints and its exit code.

Debian's kcat 1.7.1 comes with librdkafka 2.0.2, older than confluent-kafka's.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from conformance.suite import Suite, Target, TestResult, Verdict, in_every_way

TIMEOUT_S = 30
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Failed(Exception):
    """A test's expectation did not come true."""


class Kcat:
    """kcat against one broker, with a fresh topic name for every test."""

    def __init__(self, access: Mapping[str, str], workspace: Path) -> None:
        self.bootstrap = access["bootstrap.servers"]
        self._options = [word for name, value in access.items() for word in ("-X", f"{name}={value}")]
        self.workspace = workspace
        self.topic = f"kcat-{uuid.uuid4().hex[:12]}"

    def __call__(self, *words: str, text: str = "", code: int = 0) -> str:
        """Run it to its end; its standard output. Raises Failed for another exit code than `code`."""
        done = subprocess.run(
            ["kcat", *self._options, "-q", *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode != code:
            raise Failed(f"exit code {done.returncode}, not {code}: {done.stderr.strip()}")
        return done.stdout if code == 0 else done.stdout + done.stderr

    def produce(self, text: str, *words: str) -> None:
        self("-P", "-t", self.topic, *words, text=text)

    def consume(self, *words: str) -> str:
        return self("-C", "-t", self.topic, "-e", *words)


def expect(got: object, wanted: object) -> None:
    """Raises Failed unless both are equal."""
    if got != wanted:
        raise Failed(f"got {got!r:.150}, not {wanted!r:.150}")


def lists_the_cluster(kcat: Kcat) -> None:
    kcat.produce("a\n")
    listed = json.loads(kcat("-L", "-J"))
    (broker,) = listed["brokers"]
    expect(broker["name"], kcat.bootstrap)
    expect(listed["controllerid"], broker["id"])
    (topic,) = [each for each in listed["topics"] if each["topic"] == kcat.topic]
    expect([partition["leader"] for partition in topic["partitions"]], [broker["id"]])


def lists_one_topic(kcat: Kcat) -> None:
    kcat.produce("a\n")
    expect(f'topic "{kcat.topic}" with 1 partitions:' in kcat("-L", "-t", kcat.topic), True)


def creates_the_topic_it_produces_to(kcat: Kcat) -> None:
    kcat.produce("a\nb\n")
    expect(kcat.consume(), "a\nb\n")


def codec(name: str) -> Callable[[Kcat], None]:
    def carries(kcat: Kcat) -> None:
        lines = "".join(f"key-{number}:value {number}\n" for number in range(500))
        kcat.produce(lines, "-z", name, "-K:")
        expect(kcat.consume("-K:"), lines)

    return carries


def acknowledgements(acks: str) -> Callable[[Kcat], None]:
    def produces(kcat: Kcat) -> None:
        kcat.produce("a\nb\n", "-X", f"acks={acks}")
        expect(kcat.consume(), "a\nb\n")

    return produces


def idempotent(kcat: Kcat) -> None:
    lines = "".join(f"{number}\n" for number in range(1000))
    kcat.produce(lines, "-X", "enable.idempotence=true")
    expect(kcat.consume(), lines)


def transactional(kcat: Kcat) -> None:
    kcat.produce("a\nb\n", "-X", f"transactional.id={kcat.topic}")
    expect(kcat.consume("-X", "isolation.level=read_committed"), "a\nb\n")


def headers_and_nulls(kcat: Kcat) -> None:
    kcat.produce("with headers", "-H", "trace=abc", "-H", "empty=", "-k", "k")
    kcat.produce("k:\n", "-Z", "-K:")
    first, second = map(json.loads, kcat.consume("-J").splitlines())
    expect(first["headers"], ["trace", "abc", "empty", ""])
    expect((first["key"], first["payload"], first["offset"]), ("k", "with headers", 0))
    expect((second["key"], second["payload"]), ("k", None))


def formats(kcat: Kcat) -> None:
    kcat.produce("k:value\n", "-K:")
    expect(kcat.consume("-f", "%t [%p] %o %k %s %S %K\n"), f"{kcat.topic} [0] 0 k value 5 1\n")


def offsets(kcat: Kcat) -> None:
    kcat.produce("".join(f"{number}\n" for number in range(10)))
    expect(kcat.consume("-o", "beginning", "-c", "2"), "0\n1\n")
    expect(kcat.consume("-o", "7"), "7\n8\n9\n")
    expect(kcat.consume("-o", "-2"), "8\n9\n")
    expect(kcat.consume("-o", "end"), "")


def query(kcat: Kcat) -> None:
    kcat.produce("a\nb\nc\n")
    for time, offset in (("-2", 0), ("1", 0), ("-1", 3)):
        expect(kcat("-Q", "-t", f"{kcat.topic}:0:{time}"), f"{kcat.topic} [0] offset {offset}\n")


def times(kcat: Kcat) -> None:
    kcat.produce("a\nb\n")
    expect(kcat.consume("-o", "s@1000"), "a\nb\n")
    expect(kcat.consume("-o", "s@1000", "-o", "e@2000"), "")


def partitions(kcat: Kcat) -> None:
    kcat.produce("a\n", "-p", "0")
    expect(kcat.consume("-p", "0"), "a\n")
    kcat("-P", "-t", kcat.topic, "-p", "7", text="b\n", code=1)


def group(kcat: Kcat) -> None:
    settings = ("-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-e", "-u")
    kcat.produce("a\nb\n")
    expect(kcat(*settings, "-G", f"{kcat.topic}-group", kcat.topic), "a\nb\n")
    kcat.produce("c\n")
    expect(kcat(*settings, "-G", f"{kcat.topic}-group", kcat.topic), "c\n")


def large(kcat: Kcat) -> None:
    file = kcat.workspace / kcat.topic
    file.write_bytes(b"0123456789" * 90_000)
    kcat("-P", "-t", kcat.topic, str(file))
    expect(kcat.consume("-f", "%S"), "900000")


def too_large(kcat: Kcat) -> None:
    file = kcat.workspace / kcat.topic
    file.write_bytes(b"0123456789" * 200_000)
    kcat.produce("small\n")
    words = ("-P", "-t", kcat.topic, "-X", "message.max.bytes=4000000", str(file))
    kcat(*words, code=1)
    expect(kcat.consume(), "small\n")


def unknown_topic(kcat: Kcat) -> None:
    words = ("-C", "-e", "-X", "allow.auto.create.topics=false", "-t", kcat.topic)
    expect("Unknown topic or partition" in kcat(*words, code=1), True)


def out_of_range(kcat: Kcat) -> None:
    kcat.produce("a\n")
    words = ("-C", "-e", "-X", "topic.auto.offset.reset=error", "-t", kcat.topic, "-p", "0", "-o", "99")
    expect("Offset out of range" in kcat(*words, code=1), True)


def no_broker(kcat: Kcat) -> None:
    words = ("-L", "-b", "127.0.0.1:1", "-m", "2")
    expect("Failed to acquire metadata" in kcat(*words, code=1), True)


TESTS: tuple[tuple[str, Callable[[Kcat], None]], ...] = (
    ("-L -J lists brokers, controller and topics", lists_the_cluster),
    ("-L -t lists a topic", lists_one_topic),
    ("-P creates the topic it produces to", creates_the_topic_it_produces_to),
    *((f"-P -z {name} and -C -K", codec(name)) for name in CODECS),
    *((f"-P with acks={acks}", acknowledgements(acks)) for acks in ("0", "1", "all")),
    ("-P idempotently", idempotent),
    ("-P in a transaction", transactional),
    ("-P -H and -Z, -C -J shows headers and nulls", headers_and_nulls),
    ("-C -f formats topic, partition, offset, key and sizes", formats),
    ("-C -o from the beginning, an offset, the tail, the end", offsets),
    ("-C -o between times", times),
    ("-P -p a partition, and one that does not exist", partitions),
    ("-Q offsets of times", query),
    ("-G goes on where the group stopped", group),
    ("-P a file of 900,000 bytes", large),
    ("-P a file that is too large ends with 1", too_large),
    ("-C of an unknown topic ends with 1", unknown_topic),
    ("-C from an offset out of range ends with 1", out_of_range),
    ("-L without a broker ends with 1", no_broker),
)


def _run(target: Target) -> Sequence[TestResult]:
    return [_result(name, test, Kcat(target.librdkafka(), target.workspace)) for name, test in TESTS]


def _result(name: str, test: Callable[[Kcat], None], kcat: Kcat) -> TestResult:
    try:
        test(kcat)
    except (Failed, ValueError, KeyError) as error:
        return TestResult(name, Verdict.FAILED, " ".join(str(error).split()) or type(error).__name__)
    except subprocess.TimeoutExpired:
        return TestResult(name, Verdict.FAILED, f"kcat still ran after {TIMEOUT_S} s")
    return TestResult(name, Verdict.PASSED)


SUITES = in_every_way(Suite(name="kcat", origin="ours, with kcat", run=_run, needs=("kcat",)))
