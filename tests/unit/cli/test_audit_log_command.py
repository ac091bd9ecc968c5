"""`ottla audit-log` over files: exit codes, findings, and the records that a listing shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.security.audit_chain import AUDIT_TOPIC
from support.core.audit_chains import DrawnLog, drawn_log

KEY = b"sixteen bytes or more"
SEED = 11


def lines_of(log: DrawnLog) -> list[str]:
    return [json.dumps({"offset": each.offset, **json.loads(each.value)}) for each in log.records]


@pytest.fixture
def log() -> DrawnLog:
    return drawn_log(SEED, KEY)


@pytest.fixture
def file(log: DrawnLog, tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines_of(log)) + "\n")
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(KEY + b"\n")
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["audit-log", *words, "--json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_whole_log_is_verified(
    capsys: pytest.CaptureFixture[str], log: DrawnLog, file: Path, key: Path
) -> None:
    code, lines = run(capsys, "verify", "--file", str(file), "--key-file", str(key))
    assert code == 0
    assert {each["kind"] for each in lines} <= {"gap", "chain"}
    ends = {each["node"]: each["last_hash"] for each in lines if each["kind"] == "chain"}
    assert ends == {node: end.hash for node, end in log.ends.items()}
    gaps = [each for each in lines if each["kind"] == "gap"]
    strict, _ = run(capsys, "verify", "--file", str(file), "--strict")
    assert strict == bool(gaps) == 1


def test_the_first_broken_record_is_told(
    capsys: pytest.CaptureFixture[str], file: Path, log: DrawnLog
) -> None:
    lines = lines_of(log)
    fields = json.loads(lines[2])
    lines[2] = json.dumps({**fields, "principal": "User:nobody"})
    file.write_text("\n".join(lines))
    code, found = run(capsys, "verify", "--file", str(file))
    assert code == 1
    assert (found[0]["kind"], found[0]["offset"]) == ("broken", 2)
    assert "the hash of its content is" in found[0]["text"]
    assert main(["audit-log", "verify", "--file", str(file)]) == 1
    assert "broken: offset 2" in capsys.readouterr().out


def test_a_wrong_key_and_a_short_one_are_told(
    capsys: pytest.CaptureFixture[str], file: Path, key: Path
) -> None:
    key.write_bytes(b"another key than that")
    code, found = run(capsys, "verify", "--file", str(file), "--key-file", str(key))
    assert code == 1
    assert "its signature fits no key that was given" in found[0]["text"]
    key.write_bytes(b"short")
    assert main(["audit-log", "verify", "--file", str(file), "--key-file", str(key)]) == 1
    assert "16 bytes at least" in capsys.readouterr().err


def test_a_log_is_compared_with_the_ends_that_it_had(
    capsys: pytest.CaptureFixture[str], file: Path, log: DrawnLog, tmp_path: Path
) -> None:
    assert main(["audit-log", "verify", "--file", str(file), "--json"]) == 0
    ends = tmp_path / "ends.jsonl"
    ends.write_text(capsys.readouterr().out)
    assert run(capsys, "verify", "--file", str(file), "--against", str(ends))[0] == 0
    file.write_text("\n".join(lines_of(log)[:-1]))
    code, found = run(capsys, "verify", "--file", str(file), "--against", str(ends))
    assert code == 1
    assert "was the chain's last one before, is missing" in found[0]["text"]
    ends.write_text("no JSON\n")
    assert main(["audit-log", "verify", "--file", str(file), "--against", str(ends)]) == 2


def test_the_directory_of_a_stopped_broker_is_read(
    capsys: pytest.CaptureFixture[str], log: DrawnLog, tmp_path: Path
) -> None:
    assert main(["audit-log", "verify", "--data", str(tmp_path)]) == 1
    assert "has no segments" in capsys.readouterr().err
    directory = tmp_path / f"{AUDIT_TOPIC}-0"
    directory.mkdir()
    batches = [
        encode_batch([NewRecord(each.key, each.value, 1)], base_offset=each.offset) for each in log.records
    ]
    (directory / f"{0:020}.log").write_bytes(b"".join(batches[:3]))
    (directory / f"{3:020}.log").write_bytes(b"".join(batches[3:]))
    assert run(capsys, "verify", "--data", str(tmp_path))[0] == 0
    (directory / f"{0:020}.log").unlink()  # expired
    code, found = run(capsys, "verify", "--data", str(tmp_path))
    assert code == 0
    assert [each for each in found if each["kind"] == "chain" and not each["begins"]]


def test_a_listing_shows_the_records_that_are_asked_for(
    capsys: pytest.CaptureFixture[str], file: Path, log: DrawnLog
) -> None:
    everything = [json.loads(line) for line in lines_of(log)]
    code, found = run(capsys, "list", "--file", str(file))
    assert (code, found) == (0, everything)
    _, found = run(capsys, "list", "--file", str(file), "--principal", "alice", "--event", "administration")
    assert found == [
        each for each in everything if (each["principal"], each["event"]) == ("alice", "administration")
    ]
    _, found = run(capsys, "list", "--file", str(file), "--node", "1", "--since", "2000-01-01")
    assert found == [each for each in everything if each["node"] == 1 and each["time_ms"] >= 946_684_800_000]
    assert main(["audit-log", "list", "--file", str(file)]) == 0
    assert "chain-started" in capsys.readouterr().out


def test_lines_that_are_no_records_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_bytes(b'{"offset": 1}\nnothing\n\xff\xfe\n' + b"[" * 100_000 + b"\n")
    code, found = run(capsys, "verify", "--file", str(file))
    assert (code, len(found)) == (1, 4)
    assert main(["audit-log", "list", "--file", str(file), "--json"]) == 0
