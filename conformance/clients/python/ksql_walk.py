"""PyPI's ksql: what its users do, step by step, and a JSON line a step (see conformance/programs.py).

The SQL server's address is the first argument. The client stands on hyper, which takes names out of
`collections` that Python 3.10 has moved: they are put back before it is imported.
"""

from __future__ import annotations

import collections
import collections.abc
import json
import sys
import time
import traceback
import uuid

for name in ("Callable", "Iterable", "Mapping", "MutableMapping", "MutableSet", "Sequence"):
    setattr(collections, name, getattr(collections.abc, name))

from ksql import KSQLAPI  # noqa: E402
from ksql.errors import KSQLError  # noqa: E402
from ksql.utils import drop_all_streams, get_all_streams, get_stream_info  # noqa: E402

WAIT_S = 20.0
EARLIEST = {"auto.offset.reset": "earliest"}
URL = sys.argv[1]
STREAM = f"S_{uuid.uuid4().hex[:10]}".upper()

client = KSQLAPI(URL, timeout=60)


def version() -> None:
    assert client.get_ksql_version().count(".") == 2
    properties = {each["name"] for each in client.get_properties()}
    assert "ksql.service.id" in properties, properties


def made() -> None:
    assert client.create_stream(
        STREAM, ["id INT", "item STRING", "price DOUBLE"], STREAM, value_format="JSON"
    )


def topic_made() -> None:
    (told,) = client.ksql(
        f"CREATE STREAM IN_{STREAM} (id INT KEY, item STRING, price DOUBLE) "
        f"WITH (kafka_topic='{STREAM}', value_format='JSON', partitions=1)"
    )
    assert told["commandStatus"]["status"] == "SUCCESS", told


def described() -> None:
    assert STREAM in get_all_streams(client) and f"IN_{STREAM}" in get_all_streams(client, prefix="in_")
    info = get_stream_info(client, STREAM)
    assert [each["name"] for each in info["fields"]] == ["ID", "ITEM", "PRICE"], info
    assert info["readQueries"] == info["writeQueries"] == [], info


def inserted() -> None:
    rows = [{"ID": 1, "ITEM": "pen", "PRICE": 1.5}, {"ID": 2, "ITEM": "Käse", "PRICE": 2.0}]
    told = client.inserts_stream(f"IN_{STREAM}", rows)
    assert told == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}], told


def pulled() -> None:
    text = f"SELECT * FROM IN_{STREAM}"
    deadline = time.monotonic() + WAIT_S
    while len(rows := list(client.query(text, return_objects=True, stream_properties=EARLIEST))) < 2:
        assert time.monotonic() < deadline, rows
    assert rows[0] == {"ID": 1, "ITEM": "pen", "PRICE": 1.5} and rows[1]["ITEM"] == "Käse", rows


def pushed() -> None:
    text = f"SELECT item FROM IN_{STREAM} EMIT CHANGES LIMIT 2"
    rows = client.query(text, return_objects=True, stream_properties=EARLIEST)
    assert [each["ITEM"] for each in rows] == ["pen", "Käse"]


def pushed_by_chunks() -> None:
    text = f"SELECT item FROM IN_{STREAM} EMIT CHANGES"
    parts = client.query(text, use_http2=True, stream_properties=EARLIEST)
    head = json.loads(next(parts))
    assert head["columnNames"] == ["ITEM"], head
    lines: list[str] = []
    while len(lines) < 2:
        lines += next(parts).splitlines()
    assert [json.loads(each) for each in lines] == [["pen"], ["Käse"]], lines
    assert client.close_query(head["queryId"])
    assert not client.close_query(head["queryId"])


def refused() -> None:
    for text, code in (("SELEC", 40001), ("CREATE STREAM x AS SELECT * FROM nowhere", 40001)):
        try:
            client.ksql(text)
        except KSQLError as problem:
            assert problem.error_code == code, problem.error_code
        else:
            raise AssertionError(f"{text} was taken")
    assert get_stream_info(client, "NOWHERE") is None


def dropped() -> None:
    drop_all_streams(client, prefix=STREAM)
    assert STREAM not in get_all_streams(client)


STEPS = {
    "the server tells version and properties": version,
    "a stream is made with its topic": topic_made,
    "a stream is made by the client's builder": made,
    "streams are listed and described": described,
    "rows are inserted": inserted,
    "rows are pulled as objects": pulled,
    "a push query ends at its limit": pushed,
    "a push query by /query-stream is closed": pushed_by_chunks,
    "errors are told by their codes": refused,
    "streams are dropped": dropped,
}

print(json.dumps({"plan": list(STEPS)}), flush=True)
for name, step in STEPS.items():
    try:
        step()
    except Exception:
        print(json.dumps({"name": name, "ok": False, "error": traceback.format_exc()[-400:]}), flush=True)
    else:
        print(json.dumps({"name": name, "ok": True, "error": ""}), flush=True)
