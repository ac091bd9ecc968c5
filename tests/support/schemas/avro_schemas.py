"""Avro schemas made by hypothesis, and pairs of which one is often the other, changed a little."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_SIMPLE = ("A", "B", "C", "D")
_NAMESPACES = ("", "n", "n.m")
# Java before 19 writes some doubles with a digit too many (JDK-4511638): these are written alike by all.
_FLOATS = st.integers(-(2**20), 2**20).map(lambda n: n / 8)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | _FLOATS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def avro_schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    """A schema, valid but for names now and then; names are few, so that pairs have some in common."""
    return _Maker(draw).schema(depth, "")


class _Maker:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.defined: list[str] = []

    def schema(self, depth: int, namespace: str, *, union: bool = True) -> Any:
        kinds = ["primitive", "enum", "fixed", "named"]
        if depth > 0:
            kinds += ["record", "record", "array", "map"] + (["union"] if union else [])
        match self.draw(st.sampled_from(kinds)):
            case "enum":
                return self.enum(namespace)
            case "fixed":
                return self.fixed(namespace)
            case "record":
                return self.record(depth, namespace)
            case "array":
                return {"type": "array", "items": self.schema(depth - 1, namespace), **self.properties()}
            case "map":
                return {"type": "map", "values": self.schema(depth - 1, namespace), **self.properties()}
            case "union":
                return self.union(depth, namespace)
            case "named" if self.defined:
                return self.draw(st.sampled_from(self.defined))
        return self.primitive()

    def primitive(self) -> Any:
        name = self.draw(st.sampled_from(PRIMITIVES))
        properties = self.properties()
        return {"type": name, **properties} if properties or self.draw(st.booleans()) else name

    def properties(self) -> dict[str, Any]:
        if self.draw(st.integers(0, 4)):
            return {}
        names = st.sampled_from(("logicalType", "connect.name", "x-1", "é"))
        found: dict[str, Any] = self.draw(st.dictionaries(names, _JSON, max_size=2))
        # A decimal of a precision that is too large and the like are Java's business, not the text's.
        return {name: "mine" if name == "logicalType" else value for name, value in found.items()}

    def name(self, namespace: str) -> tuple[dict[str, Any], str]:
        """The attributes that name a type, and the namespace within it. Names are unique by a number."""
        own = self.draw(st.sampled_from((namespace, *_NAMESPACES)))
        for simple in self.draw(st.permutations(_SIMPLE)):
            full = f"{own}.{simple}" if own else simple
            if full not in self.defined:
                break
        else:
            simple = f"N{len(self.defined)}"
            full = f"{own}.{simple}" if own else simple
        self.defined.append(full)
        style = self.draw(st.sampled_from(("full", "split")))
        named = {"name": full} if style == "full" and own else {"name": simple, "namespace": own}
        if self.draw(st.integers(0, 3)) == 0:
            named["aliases"] = self.draw(
                st.lists(st.sampled_from((*_SIMPLE, "n.A", "n.m.B", "other.C")), max_size=2, unique=True)
            )
        if self.draw(st.booleans()):
            named["doc"] = self.draw(st.text(max_size=8))
        return {**named, **self.properties()}, own

    def enum(self, namespace: str) -> Any:
        named, _ = self.name(namespace)
        symbols = self.draw(st.lists(st.sampled_from(("X", "Y", "Z", "W")), min_size=1, unique=True))
        default = {"default": self.draw(st.sampled_from(symbols))} if self.draw(st.booleans()) else {}
        return {"type": "enum", **named, "symbols": symbols, **default}

    def fixed(self, namespace: str) -> Any:
        named, _ = self.name(namespace)
        return {"type": "fixed", **named, "size": self.draw(st.integers(0, 3))}

    def union(self, depth: int, namespace: str) -> Any:
        branches: list[Any] = []
        seen: set[str] = set()
        for _ in range(self.draw(st.integers(0, 4))):
            branch = self.schema(depth - 1, namespace, union=False)
            key = self.union_key(branch, namespace)
            if key not in seen:
                seen.add(key)
                branches.append(branch)
        return branches

    def union_key(self, branch: Any, namespace: str) -> str:
        if isinstance(branch, str):
            return branch
        if branch["type"] not in ("record", "enum", "fixed"):
            return str(branch["type"])
        name, own = branch["name"], branch.get("namespace", namespace)
        return name if "." in name or not own else f"{own}.{name}"

    def record(self, depth: int, namespace: str) -> Any:
        named, inner = self.name(namespace)
        names = self.draw(st.lists(st.sampled_from(("a", "b", "c", "d")), max_size=3, unique=True))
        fields = []
        for name in names:
            field: dict[str, Any] = {"name": name, "type": self.schema(depth - 1, inner)}
            default = self.default(field["type"])
            if default is not None:
                field["default"] = default[0]
            if self.draw(st.integers(0, 4)) == 0:
                field["aliases"] = self.draw(
                    st.lists(st.sampled_from(("a", "b", "c", "d", "e")), max_size=2, unique=True)
                )
            if self.draw(st.integers(0, 4)) == 0:
                field["order"] = self.draw(st.sampled_from(("ascending", "descending", "ignore")))
            fields.append({**field, **self.properties()})
        return {"type": "record", **named, "fields": fields}

    def default(self, kind: Any) -> tuple[Any] | None:
        """A default that fits, in a tuple, for types where that is easily had."""
        if isinstance(kind, list):
            return self.default(kind[0]) if kind else None
        name = kind if isinstance(kind, str) else kind["type"]
        if self.draw(st.booleans()):
            return None
        match name:
            case "null":
                return (None,)
            case "boolean":
                return (self.draw(st.booleans()),)
            case "int":
                return (self.draw(st.integers(-(2**31), 2**31 - 1)),)
            case "long":
                return (self.draw(st.integers(-(2**63), 2**63 - 1)),)
            case "float" | "double":
                return (self.draw(_FLOATS | st.integers(-9, 9)),)
            case "string":
                return (self.draw(st.text(max_size=4)),)
            case "bytes":
                return (self.draw(st.text(st.characters(max_codepoint=255), max_size=4)),)
            case "array":
                return ([],)
            case "map":
                return ({},)
            case "enum":
                return (kind["symbols"][0],)
            case _:
                return None


@st.composite
def avro_pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two schemas: independent ones, or one and the same with some of its parts changed."""
    first = draw(avro_schemas())
    if draw(st.integers(0, 3)) == 0:
        return first, draw(avro_schemas())
    second = _changed(draw, first)
    return (first, second) if draw(st.booleans()) else (second, first)


def _changed(draw: st.DrawFn, node: Any) -> Any:
    """A schema with a few differences, still valid."""
    match node:
        case str():
            if node in PRIMITIVES and draw(st.integers(0, 3)) == 0:
                return draw(st.sampled_from(PRIMITIVES))
            return node
        case list():
            # Branches may become equal, so none is changed where that could be: they are left out or turned.
            branches = list(node)
            if branches and draw(st.integers(0, 2)) == 0:
                branches.pop(draw(st.integers(0, len(branches) - 1)))
            return branches
        case dict() if node["type"] == "record":
            fields = [_changed_field(draw, field) for field in node["fields"]]
            if draw(st.integers(0, 2)) == 0 and "z" not in {field["name"] for field in fields}:
                added: dict[str, Any] = {"name": "z", "type": "int"}
                if draw(st.booleans()):
                    added["default"] = 1
                fields.append(added)
            return {**node, "fields": fields}
        case dict() if node["type"] == "enum" and draw(st.integers(0, 2)) == 0:
            symbols = draw(st.lists(st.sampled_from(("X", "Y", "Z", "W")), min_size=1, unique=True))
            if "default" in node and node["default"] not in symbols:
                symbols.append(node["default"])
            return {**node, "symbols": symbols}
        case dict() if node["type"] == "fixed" and draw(st.integers(0, 3)) == 0:
            return {**node, "size": draw(st.integers(0, 3))}
        case dict() if node["type"] == "array":
            return {**node, "items": _changed(draw, node["items"])}
        case dict() if node["type"] == "map":
            return {**node, "values": _changed(draw, node["values"])}
        case _:
            return node


def _changed_field(draw: st.DrawFn, field: dict[str, Any]) -> dict[str, Any]:
    changed = {**field, "type": _changed(draw, field["type"])}
    if changed["type"] != field["type"] or draw(st.integers(0, 3)) == 0:
        changed.pop("default", None)
    return changed
