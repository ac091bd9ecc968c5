"""Compares the answers of two implementations of Connect's REST API, as far as Connect fixes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_EMBEDDED = ("Transforms: ", "Predicates: ")
_OWN_SENTENCES = ("topics.regex",)


def differences(said: str, theirs: Any, ours: Any) -> list[str]:
    """The differences that count, in words."""
    match said:
        case "text":
            return list(_texts(theirs, ours))
        case "shape":
            return list(_shapes(theirs, ours, "answer"))
        case "loggers":
            return list(_shapes(list(theirs.values()), list(ours.values()), "loggers"))
        case "keys":
            return list(_keys(theirs, ours))
        case "fields":
            return list(_fields(theirs, ours))
    return []


def _texts(theirs: Any, ours: Any) -> Iterator[str]:
    if isinstance(theirs, dict) and "error_code" in theirs and isinstance(ours, dict):
        mine, wanted = str(ours.get("message")), str(theirs["message"])
        if ours.get("error_code") != theirs["error_code"] or _sorted_errors(mine) != _sorted_errors(wanted):
            yield f"{wanted!r} is not {mine!r}"
    elif isinstance(theirs, list) and all(isinstance(each, str) for each in theirs):
        if sorted(theirs) != sorted(ours):
            yield f"{theirs} is not {ours}"
    elif theirs != ours:
        yield f"{theirs} is not {ours}"


def _sorted_errors(message: str) -> list[str]:
    """The lines of a message: errors come in the order of a hash table."""
    return sorted(message.split("\n"))


def _shapes(theirs: Any, ours: Any, place: str) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        known = {name for name in theirs if _is_field(name)}
        for name in sorted(known - ours.keys()):
            yield f"{place} has no {name}"
        for name in sorted({name for name in ours if _is_field(name)} - theirs.keys()):
            yield f"{place} has {name}, which is not in theirs"
        for name in sorted(theirs.keys() & ours.keys()):
            yield from _shapes(theirs[name], ours[name], f"{place}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list):
        if theirs and ours:
            yield from _shapes(theirs[0], ours[0], f"{place}[0]")
    elif theirs is not None and ours is not None and type(theirs) is not type(ours):
        yield f"{place} is a {type(ours).__name__}, not a {type(theirs).__name__}"


def _is_field(name: str) -> bool:
    """Whether a key is a field that every such answer has: no connector's name, and no trace of a failure."""
    return "." not in name and not name.startswith("c") and name != "trace"


def _keys(theirs: Any, ours: Any) -> Iterator[str]:
    mine = {each["name"]: each for each in ours}
    for each in theirs:
        if each["name"] not in mine:
            yield f"no definition of {each['name']}"
        else:
            yield from _definition(each, mine[each["name"]])
    for name in mine.keys() - {each["name"] for each in theirs}:
        yield f"a definition of {name} too many"


def _definition(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    if theirs.keys() != ours.keys():
        yield f"the fields of {theirs['name']}: {sorted(ours)}"
        return
    left_out = {"documentation"}
    if "version" in theirs["name"]:
        left_out.add("default_value")
    if str(theirs["group"]).startswith(_EMBEDDED):
        left_out.add("order_in_group")
    for name in theirs.keys() - left_out:
        if theirs[name] != ours[name]:
            yield f"{theirs['name']}: {name} {theirs[name]!r} is not {ours[name]!r}"


def _fields(theirs: Any, ours: Any) -> Iterator[str]:
    for name in ("name", "error_count", "groups"):
        if theirs[name] != ours[name]:
            yield f"{name}: {theirs[name]} is not {ours[name]}"
    mine = {each["value"]["name"]: each for each in ours["configs"]}
    known = {each["value"]["name"]: each for each in theirs["configs"]}
    if known.keys() != mine.keys():
        yield f"keys: {sorted(known.keys() ^ mine.keys())}"
    for name in known.keys() & mine.keys():
        yield from _field(name, known[name], mine[name])


def _field(name: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    value, own = theirs["value"], ours["value"]
    if value.keys() != own.keys():
        yield f"{name}: the fields {sorted(own)}"
    if sorted(value["errors"]) != sorted(own["errors"]) and name not in _OWN_SENTENCES:
        yield f"{name}: {value['errors']} is not {own['errors']}"
    if "version" not in name and value["value"] != own["value"]:
        yield f"{name}: {value['value']!r} is not {own['value']!r}"
    if ".override." in name:
        return  # the definitions of Java's clients are not known here
    if theirs["definition"] is None or ours["definition"] is None:
        if theirs["definition"] is not ours["definition"]:
            yield f"{name}: definition"
        return
    yield from _definition(theirs["definition"], ours["definition"])
