"""The OpenAPI document as one page of HTML, without scripts, styles or fonts from other servers."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Final

_STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c2024; background: #fff; }
h1 { margin-bottom: 0; overflow-wrap: anywhere; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccd2d8; }
details { border: 1px solid #dde2e7; border-radius: 4px; margin: .4rem 0; padding: .3rem .8rem; }
summary { cursor: pointer; } code, pre { font: 13px/1.5 ui-monospace, monospace; }
summary code { overflow-wrap: anywhere; } pre, .table { overflow-x: auto; }
.method { display: inline-block; min-width: 5rem; font-weight: 600; }
.what { float: right; margin-left: 1rem; color: #5a6570; } nav a { margin-right: 1rem; }
@media (max-width: 40rem) { body { margin: 1rem auto; } .what { float: none; display: block; margin: 0; }
  nav a { display: inline-block; } }
table { border-collapse: collapse; margin: .5rem 0; } td, th { text-align: left; vertical-align: top;
  padding: .15rem 1.2rem .15rem 0; font-weight: normal; } th { color: #5a6570; }
a { color: #0b5cad; } :target { background: #fff7d6; }
@media (prefers-color-scheme: dark) { body { color: #e4e8ec; background: #15181b; }
  details { border-color: #343b42; } h2 { border-color: #343b42; } a { color: #7ab8ff; }
  .what, th { color: #98a3ad; } :target { background: #3a3520; } }
"""


def docs_page(document: Mapping[str, Any]) -> str:
    """The page: operations by chapter, then the schemas that they refer to."""
    info = document["info"]
    chapters: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            chapters.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    links = "".join(f'<a href="#{_anchor(tag)}">{escape(tag)}</a> ' for tag in chapters)
    told = "".join(
        f'<h2 id="{_anchor(tag)}">{escape(tag)}</h2>{"".join(operations)}'
        for tag, operations in chapters.items()
    )
    schemas = "".join(_schema(name, schema) for name, schema in document["components"]["schemas"].items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])} "
        f'As <a href="openapi.json">OpenAPI {escape(document["openapi"])}</a>.</p>'
        f'<nav>{links}<a href="#schemas">Schemas</a></nav>{told}'
        f'<h2 id="schemas">Schemas</h2>{schemas}</body></html>'
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    rows = [
        _row(f"{parameter['name']} <small>({parameter['in']})</small>", _parameter(parameter))
        for parameter in operation.get("parameters", ())
    ]
    if "requestBody" in operation:
        rows.append(_row("body", _content(operation["requestBody"])))
    for status, answer in operation["responses"].items():
        content = _content(answer)
        rows.append(_row(escape(status), escape(answer["description"]) + (f": {content}" if content else "")))
    note = f"<p>{escape(operation['description'])}</p>" if "description" in operation else ""
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><span class="method">{method.upper()}'
        f'</span><code>{escape(path)}</code><span class="what">{escape(operation["summary"])}</span>'
        f'</summary>{note}<div class="table" tabindex="0"><table>{"".join(rows)}</table></div></details>'
    )


def _row(name: str, text: str) -> str:
    return f"<tr><th>{name}</th><td>{text}</td></tr>"


def _parameter(parameter: Mapping[str, Any]) -> str:
    words = [parameter["description"], parameter["schema"]["type"]]
    if "enum" in parameter["schema"]:
        words[1] = " | ".join(parameter["schema"]["enum"])
    if parameter["in"] == "query" and parameter["required"]:
        words.append("required")
    return escape("; ".join(words))


def _content(holder: Mapping[str, Any]) -> str:
    """The schema of a body, and its media types."""
    content = holder.get("content")
    if not content:
        return ""
    name = next(iter(content.values()))["schema"]["$ref"].rpartition("/")[2]
    return f"{_link(name)} <small>({escape(', '.join(content))})</small>"


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    return (
        f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code></summary>'
        f'<pre tabindex="0">{_told(schema, 0)}</pre></details>'
    )


def _told(schema: Mapping[str, Any], depth: int) -> str:
    """A schema in the shape of the JSON that it describes."""
    indent = "  " * (depth + 1)
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return escape(f'"{schema["const"]}"')
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return " <em>or</em> ".join(_told(one, depth) for one in schema[word])
    if "enum" in schema:
        return escape(" | ".join("null" if value is None else str(value) for value in schema["enum"]))
    if "properties" in schema:
        required = schema.get("required", ())
        fields = [
            f"{indent}{escape(name)}{'' if name in required else '?'}: {_told(field, depth + 1)}"
            for name, field in schema["properties"].items()
        ]
        return "{\n" + "\n".join(fields) + f"\n{'  ' * depth}}}"
    if "items" in schema:
        return f"[ {_told(schema['items'], depth)} ]"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"{{ …: {_told(schema['additionalProperties'], depth)} }}"
    kind = schema.get("type", "any JSON")
    return escape(kind if isinstance(kind, str) else " | ".join(kind))


def _link(name: str) -> str:
    return f'<a href="#schema-{escape(name)}">{escape(name)}</a>'


def _anchor(tag: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in tag.lower())
