"""The registry's formats as Spark's workers use them, without Spark, and as rows' codecs read them."""

from __future__ import annotations

import random
import uuid
from decimal import Decimal
from typing import Any

import orjson
import pytest

from ottla.sql.catalog.sources import Column, Source
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import Role, SourceKind
from ottla.sql.lowering.formats import topic_formats
from ottla.sql.lowering.registry_format import RegistryFormat
from ottla.sql.rows.codecs import KafkaRecord, RowCodec
from ottla.sql.types.sql_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    Base,
    SqlType,
    array,
    struct,
)
from support.servers.services import ServiceProcess

DATE, TIME = SqlType(Base.DATE), SqlType(Base.TIME)
MAP = SqlType(Base.MAP, elements=(STRING, DOUBLE))
COLUMNS = (
    Column("K", BIGINT, Role.KEY),
    *(
        Column(name, of)
        for name, of in {
            "N": INTEGER,
            "B": BOOLEAN,
            "T": STRING,
            "BY": BYTES,
            "D": DATE,
            "CLOCK": TIME,
            "AT": TIMESTAMP,
            "XS": array(INTEGER),
            "S": struct(("A", BIGINT), ("IN", struct(("Q", STRING)))),
            "M": MAP,
        }.items()
    ),
)
AMOUNT = Column("AMOUNT", SqlType(Base.DECIMAL, 8, 2))


@pytest.mark.parametrize("name", ["AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR"])
def test_values_are_read_as_they_were_written(registry: ServiceProcess, name: str) -> None:
    columns = COLUMNS if name.startswith("PROTOBUF") else (*COLUMNS, AMOUNT)
    settings = {"schema.registry.url": registry.url}
    topic = f"t{uuid.uuid4().hex[:8]}"
    source = Source("S", SourceKind.STREAM, columns, topic, name, name, partitions=1)
    formats = topic_formats(source, reads=True, registry=settings)
    assert isinstance(formats.key, RegistryFormat) and isinstance(formats.value, RegistryFormat)
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    rows: list[dict[str, Any]] = [
        {
            "N": dice.randint(-(2**31), 2**31 - 1),
            "B": dice.random() < 0.5,
            "T": dice.choice(["", "ü", "x" * 300]),
            "BY": dice.randbytes(dice.randint(1, 20)),
            "D": dice.randint(0, 30_000),
            "CLOCK": dice.randint(0, 86_399_999),
            "AT": dice.randint(0, 4 * 10**12),
            "XS": [dice.randint(-9, 9) for _ in range(dice.randint(1, 4))],
            "S": {"A": dice.randint(-(2**63), 2**63 - 1), "IN": {"Q": "q"}},
            "M": {"m": dice.random()},
            **({"AMOUNT": Decimal(dice.randint(-99999, 99999)) / 100} if AMOUNT in columns else {}),
        }
        for _ in range(dice.randint(5, 30))
    ]
    key = dice.randint(-(2**63), 2**63 - 1)

    values = formats.value.write([transported(each) for each in rows] + [None])
    keys = formats.key.write([orjson.dumps({"v": key}).decode()])

    wanted = [{**each, "M": list(each["M"].items())} for each in rows]
    assert formats.value.read(values) == ([*wanted, None], [None] * (len(rows) + 1))
    assert formats.key.read(keys) == ([key], [None])
    codec = RowCodec(source, settings)
    for value, row in zip(values, rows, strict=False):
        found = codec.row(KafkaRecord(keys[0], value, (), 0, 0, 0))
        assert found is not None
        assert {each: found[each] for each in row} == row
        assert found["K"] == key
    # What is of no such format is a dead letter, and the others are read.
    bad = b"\x01\xff\xff"
    found_values, errors = formats.value.read([bad, values[0]])
    assert found_values == [None, wanted[0]]
    assert errors[0] and errors[1] is None


def transported(row: dict[str, Any]) -> str:
    """A row as transport_text has it."""
    import base64

    carried = {**row, "BY": base64.b64encode(row["BY"]).decode()}
    if "AMOUNT" in row:
        carried["AMOUNT"] = str(row["AMOUNT"])
    return orjson.dumps(carried).decode()


def test_a_format_of_the_registry_needs_one() -> None:
    source = Source("S", SourceKind.STREAM, COLUMNS, "t", "KAFKA", "AVRO")

    with pytest.raises(SqlError, match="AVRO needs a Schema Registry"):
        topic_formats(source, reads=True)
