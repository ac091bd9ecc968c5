"""The options of `ottla broker`, and a reader of plain lines of them that needs no parser's import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
DEFAULT_LOG_LEVEL: Final = "warning"
DEFAULT_LISTEN: Final = "127.0.0.1:9092"


class BrokerOptions(NamedTuple):
    """The values of the options, as the command's help explains them."""

    data: Path | None = None
    listen: str | None = None
    brokers: int | None = None
    config: Path | None = None
    set_words: tuple[str, ...] = ()
    cluster_id: str | None = None
    metrics: str | None = None
    log_level: str = DEFAULT_LOG_LEVEL
    with_launcher: bool = False


#: Option -> its field
_FIELDS: Final = {
    "--data": "data",
    "--listen": "listen",
    "--brokers": "brokers",
    "--config": "config",
    "--set": "set_words",
    "--cluster-id": "cluster_id",
    "--metrics": "metrics",
    "--log-level": "log_level",
}


def plain_options(words: Sequence[str]) -> BrokerOptions | None:
    """The options of a line without mistakes, `--option VALUE` and `--option=VALUE` alone; else None.

    Any other line, one that asks for help say, is read by the command in broker_command.py, which gives the
    same options for this one.
    """
    values: dict[str, Any] = {}
    left = iter(words)
    for word in left:
        if word == "--with-launcher":
            values["with_launcher"] = True
            continue
        option, equals, text = word.partition("=")
        field = _FIELDS.get(option)
        value = text if equals else next(left, None)
        if field is None or value is None or (not equals and value.startswith("-")):
            return None
        match field:
            case "set_words":
                values[field] = (*values.get(field, ()), value)
            case "data" | "config":
                values[field] = Path(value)
            case "brokers":
                if not (value.isascii() and value.isdecimal()):
                    return None
                values[field] = int(value)
            case "log_level":
                if value not in LOG_LEVELS:
                    return None
                values[field] = value
            case _:
                values[field] = value
    return BrokerOptions(**values)
