"""Draw a topology as an SVG that reads well on a light and on a dark page.

Layout has two levels. Each query's nodes are laid out on their own, sources above and sinks below, and the
query is a box around them; then the boxes and the topics between them are laid out as if boxes were nodes.
Both use grandalf's layers (Sugiyama). Nothing here measures text: widths are estimated, generously.

There is no background and no style sheet: shapes carry light fills with dark text, lines and the text outside
of shapes have a grey that both a white and a black page show well. So the picture is the same in a README, a
notebook and a browser.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.streams.plan.topology import Topology
from ottla.streams.show.describe import (
    DescribedNode,
    DescribedQuery,
    DescribedTopology,
    Kind,
    Runs,
    described,
    topics_of,
)

GREY: Final = "#74829a"
TEXT: Final = "#1b2432"
FILL: Final = {
    Kind.SOURCE: ("#cdebd6", "#3f8f5b"),
    Kind.OPERATION: ("#e6eaf1", "#8592a6"),
    Kind.STATE: ("#fde3b0", "#c08a2d"),
    Kind.SINK: ("#cfe1fb", "#4673b8"),
}
TOPIC_FILL: Final = ("#e9ddf7", "#8159b5")
BADGE_FILL: Final = ("#fff3c4", "#9a7400")
FONT: Final = "ui-sans-serif, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"

_NAME_PIXELS: Final = 7.8
_NOTE_PIXELS: Final = 6.0
_LINE_HEIGHT: Final = 15
_NODE_GAP: Final = 26
_LAYER_GAP: Final = 30
_BLOCK_GAP: Final = 44
_BLOCK_LAYER_GAP: Final = 50
_PADDING: Final = 16
_TITLE_HEIGHT: Final = 38
_MARGIN: Final = 12
_DUMMY_WIDTH: Final = 14.0
_MAX_NAME: Final = 44
_LEGEND_HEIGHT: Final = 46

Point = tuple[float, float]


def picture(topology: Topology) -> str:
    """The topology as the text of an SVG file."""
    return _draw(described(topology))


def picture_html(topology: Topology) -> str:
    """The picture for a notebook: what `_repr_html_` returns. It scrolls where it is wider than the page."""
    return f'<div style="overflow-x:auto">{picture(topology)}</div>'


# -- layout ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Box:
    """Something with a size that gets a place: the centre (x, y)."""

    name: str
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    @property
    def top(self) -> Point:
        return self.x, self.y - self.height / 2

    @property
    def bottom(self) -> Point:
        return self.x, self.y + self.height / 2


@dataclass(slots=True)
class _Block:
    """A query: its nodes placed around (0, 0) first, moved to where the box is later."""

    query: DescribedQuery
    nodes: dict[str, _Box]
    edges: list[list[Point]]
    box: _Box = field(default_factory=lambda: _Box("", 0.0, 0.0))


def _placed(
    boxes: Mapping[str, _Box],
    edges: Iterable[tuple[str, str]],
    gap: float,
    layer_gap: float,
    *,
    aligned: bool = False,
) -> dict[tuple[str, str], list[Point]]:
    """Gives every box its place, top left at (0, 0), and returns each edge's points between its ends.

    aligned: the boxes of a layer stand in line at their tops, not at their middles.
    """
    # An extra with a licence of its own (EPL), imported where a picture is asked for.
    from grandalf.graphs import Edge, Graph, Vertex
    from grandalf.layouts import SugiyamaLayout, VertexViewer
    from grandalf.routing import EdgeViewer

    vertices = {name: Vertex(name) for name in boxes}
    for name, vertex in vertices.items():
        vertex.view = VertexViewer(boxes[name].width, boxes[name].height)
    drawn: dict[tuple[str, str], Any] = {}
    for start, end in edges:
        if (start, end) not in drawn and start != end:
            drawn[start, end] = Edge(vertices[start], vertices[end])
            drawn[start, end].view = EdgeViewer()
    graph = Graph(list(vertices.values()), list(drawn.values()))
    left = 0.0
    for component in graph.C:
        # Components in the order of what they hold, not of how they were found.
        layout = SugiyamaLayout(component)
        layout.xspace, layout.yspace, layout.dw, layout.dh = gap, layer_gap, _DUMMY_WIDTH, 1.0
        layout.init_all(optimize=True)
        layout.draw(6)
        members = list(component.sV)
        for layer in layout.layers:
            tallest = max(vertex.view.h for vertex in layer)
            for vertex in layer:
                if vertex in members and aligned:
                    vertex.view.xy = (vertex.view.xy[0], vertex.view.xy[1] - (tallest - vertex.view.h) / 2)
        shift = left - min(vertex.view.xy[0] - vertex.view.w / 2 for vertex in members)
        for edge in component.sE:
            edge.view._pts = [(x + shift, y) for x, y in edge.view._pts]
        for vertex in members:
            vertex.view.xy = (vertex.view.xy[0] + shift, vertex.view.xy[1])
        left = max(vertex.view.xy[0] + vertex.view.w / 2 for vertex in members) + gap
    for name, vertex in vertices.items():
        boxes[name].x, boxes[name].y = vertex.view.xy
    return {ends: list(edge.view._pts)[1:-1] for ends, edge in drawn.items()}


def _block(query: DescribedQuery) -> _Block:
    boxes = {node.name: _node_box(node) for node in query.nodes}
    edges = [(each, node.name) for node in query.nodes for each in node.inputs]
    spacers = _spacers(query, edges)
    through = _placed({**boxes, **spacers.boxes}, spacers.edges, _NODE_GAP, _LAYER_GAP)
    lines = []
    for start, end in edges:
        hops = spacers.hops.get((start, end), [start, end])
        points = [boxes[start].bottom]
        for one, other in itertools.pairwise(hops):
            points += through.get((one, other), [])
            if other != end:
                points.append((spacers.boxes[other].x, spacers.boxes[other].y))
        lines.append([*points, boxes[end].top])
    block = _Block(query, boxes, lines)
    left = min(box.x - box.width / 2 for box in boxes.values())
    right = max(box.x + box.width / 2 for box in boxes.values())
    # The title stands at the left of the lines that come in from above.
    first = min(boxes[node.name].x for node in query.nodes if not node.inputs)
    left = min(left, first - _query_title_width(query))
    bottom = max(box.y + box.height / 2 for box in boxes.values())
    top = min(box.y - box.height / 2 for box in boxes.values())
    block.box = _Box(query.name, right - left + 2 * _PADDING, bottom - top + 2 * _PADDING + _TITLE_HEIGHT)
    centre_x, centre_y = (left + right) / 2, (top + bottom) / 2 - _TITLE_HEIGHT / 2
    _moved(block, -centre_x, -centre_y)
    return block


@dataclass(slots=True)
class _Spacers:
    """Invisible boxes that push sinks down to the last layer, so that lines to topics cross no node."""

    boxes: dict[str, _Box]
    edges: list[tuple[str, str]]
    hops: dict[tuple[str, str], list[str]]


def _spacers(query: DescribedQuery, edges: Sequence[tuple[str, str]]) -> _Spacers:
    rank: dict[str, int] = {}
    for node in query.nodes:
        rank[node.name] = max((rank[each] + 1 for each in node.inputs), default=0)
    last = max(rank.values())
    found = _Spacers({}, [], {})
    sinks = {node.name for node in query.nodes if node.kind is Kind.SINK}
    for start, end in edges:
        hops = [start]
        if end in sinks:
            for number in range(rank[end], last):
                name = f"{start} {end} {number}"
                found.boxes[name] = _Box(name, _DUMMY_WIDTH, 1.0)
                hops.append(name)
        hops.append(end)
        found.edges += list(itertools.pairwise(hops))
        found.hops[start, end] = hops
    return found


def _moved(block: _Block, x: float, y: float) -> None:
    for box in block.nodes.values():
        box.x, box.y = box.x + x, box.y + y
    block.edges = [[(px + x, py + y) for px, py in points] for points in block.edges]


def _mirror_if_fewer_cross(block: _Block, outside: Sequence[tuple[float, str]]) -> None:
    """Turns the nodes round when fewer of the lines to the outside (its x, the node) cross that way."""
    balance = 0
    for (one_x, one), (other_x, other) in itertools.combinations(outside, 2):
        inside = block.nodes[one].x - block.nodes[other].x
        balance += (inside * (one_x - other_x) > 0) - (inside * (one_x - other_x) < 0)
    if balance >= 0:
        return
    left = min(box.x - box.width / 2 for box in block.nodes.values())
    right = max(box.x + box.width / 2 for box in block.nodes.values())
    for box in block.nodes.values():
        box.x = left + right - box.x
    block.edges = [[(left + right - x, y) for x, y in points] for points in block.edges]


# -- sizes -------------------------------------------------------------------------------------------------


def _short(text: str, limit: int = _MAX_NAME) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _notes(node: DescribedNode) -> list[str]:
    """The lines below a node's name."""
    return [_short(note) for note in (node.operation, node.detail) if note and note not in (node.name, "to")]


def _node_box(node: DescribedNode) -> _Box:
    notes = _notes(node)
    badge = 34 if node.runs in (Runs.PYTHON, Runs.VECTORIZED) else 0
    width = max(
        len(_short(node.name)) * _NAME_PIXELS + badge,
        *(len(note) * _NOTE_PIXELS for note in notes),
        70.0,
    )
    extra = 22 if node.kind is Kind.STATE else 0
    return _Box(node.name, width + 28 + extra, _LINE_HEIGHT * (1 + len(notes)) + 16)


def _topic_box(topic: str) -> _Box:
    return _Box(topic, max(len(_short(topic)) * _NAME_PIXELS, 60.0) + 44, 34)


def _query_title_width(query: DescribedQuery) -> float:
    return max(len(_short(query.name)) * _NAME_PIXELS, len(_short(query.mode, 60)) * _NOTE_PIXELS) + 8


# -- drawing -----------------------------------------------------------------------------------------------


def _draw(whole: DescribedTopology) -> str:
    blocks = {query.name: _block(query) for query in whole.queries}
    topics = {topic: _topic_box(topic) for topic in topics_of(whole)}
    # Names of topics and of queries may be equal.
    boxes = {f"q {name}": block.box for name, block in blocks.items()}
    boxes |= {f"t {name}": box for name, box in topics.items()}
    ends: list[tuple[str, str, str]] = []
    """Two boxes of the outer layout, and the node at the query's end."""
    for query in whole.queries:
        for node in query.nodes:
            ends += [(f"t {topic}", f"q {query.name}", node.name) for topic in node.reads]
            ends += [(f"q {query.name}", f"t {topic}", node.name) for topic in node.writes]
    outer_edges = [(start, end) for start, end, _ in ends]
    through = _placed(boxes, outer_edges, _BLOCK_GAP, _BLOCK_LAYER_GAP, aligned=True)
    for name, block in blocks.items():
        _moved(block, block.box.x, block.box.y)
        outside = [(boxes[start].x, node) for start, end, node in ends if end == f"q {name}"]
        outside += [(boxes[end].x, node) for start, end, node in ends if start == f"q {name}"]
        _mirror_if_fewer_cross(block, outside)
    lines: list[list[Point]] = []
    for start, end, name in ends:
        between = through.get((start, end), [])
        if start.startswith("t "):
            points = [boxes[start].bottom, *between, blocks[end[2:]].nodes[name].top]
        else:
            points = [blocks[start[2:]].nodes[name].bottom, *between, boxes[end].top]
        lines.append(points)
    return _svg(whole, blocks, topics, lines)


def _svg(
    whole: DescribedTopology,
    blocks: Mapping[str, _Block],
    topics: Mapping[str, _Box],
    lines: Sequence[Sequence[Point]],
) -> str:
    everything = [*topics.values(), *(block.box for block in blocks.values())]
    left = min(box.x - box.width / 2 for box in everything) - _MARGIN
    top = min(box.y - box.height / 2 for box in everything) - _MARGIN
    width = max(box.x + box.width / 2 for box in everything) + _MARGIN - left
    height = max(box.y + box.height / 2 for box in everything) + _MARGIN - top
    legend, legend_width = _legend(left + _MARGIN, top + height + 8, whole)
    width = max(width, legend_width + 2 * _MARGIN)
    height += _LEGEND_HEIGHT
    internal = {topic.name for topic in whole.internal_topics}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}"'
        f' width="{width:.0f}" height="{height:.0f}" role="img" font-family="{FONT}">',
        f"<title>Topology of {_escaped(whole.application)}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        f' orient="auto-start-reverse"><path d="M0 0.6 L8 4 L0 7.4 z" fill="{GREY}"/></marker></defs>',
    ]
    parts += [_query_box(block) for block in blocks.values()]
    parts += [_line(points) for points in [*(each for b in blocks.values() for each in b.edges), *lines]]
    parts += [_node(node, block.nodes[node.name]) for block in blocks.values() for node in block.query.nodes]
    parts += [_topic(box, internal=name in internal) for name, box in topics.items()]
    return "\n".join([*parts, *legend, "</svg>"]) + "\n"


def _query_box(block: _Block) -> str:
    box = block.box
    x, y = box.x - box.width / 2, box.y - box.height / 2
    return (
        f"<g><title>query {_escaped(box.name)}: {_escaped(block.query.mode)} ({_escaped(block.query.reason)})"
        f'</title><rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="12"'
        f' fill="{GREY}" fill-opacity="0.10" stroke="{GREY}" stroke-opacity="0.55"/>'
        f'<text x="{x + 12:.1f}" y="{y + 19:.1f}" font-size="12.5" font-weight="600" fill="{GREY}">'
        f"{_escaped(_short(box.name))}</text>"
        f'<text x="{x + 12:.1f}" y="{y + 33:.1f}" font-size="10.5" fill="{GREY}">'
        f"{_escaped(_short(block.query.mode, 60))}</text></g>"
    )


def _line(points: Sequence[Point]) -> str:
    """A smooth line: it leaves downwards, arrives downwards, and passes the points in between."""
    (x, y), *rest = points
    path = f"M{x:.1f} {y:.1f}"
    for next_x, next_y in rest:
        bend = (next_y - y) / 2 if next_y > y else 36.0
        path += f" C{x:.1f} {y + bend:.1f} {next_x:.1f} {next_y - bend:.1f} {next_x:.1f} {next_y:.1f}"
        x, y = next_x, next_y
    return f'<path d="{path}" fill="none" stroke="{GREY}" stroke-width="1.4" marker-end="url(#tip)"/>'


def _node(node: DescribedNode, box: _Box) -> str:
    x, y = box.x - box.width / 2, box.y - box.height / 2
    fill, stroke = FILL[node.kind]
    radius = {Kind.SOURCE: box.height / 2, Kind.SINK: box.height / 2, Kind.STATE: 3.0}.get(node.kind, 8.0)
    parts = [
        f"<g><title>{_escaped(_tooltip(node))}</title>",
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius:.1f}"'
        f' fill="{fill}" stroke="{stroke}"/>',
    ]
    text_x = box.x
    if node.kind is Kind.STATE:
        parts.append(_disk(x + 17, box.y, stroke))
        text_x += 11
    badge = {Runs.PYTHON: "py", Runs.VECTORIZED: "py []"}.get(node.runs) if node.runs else None
    notes = _notes(node)
    first = box.y - (len(notes) * _LINE_HEIGHT) / 2 + 4.5
    name_x = text_x - (17 if badge else 0)
    parts.append(_text(name_x, first, _short(node.name), bold=True))
    if badge is not None:
        fill, stroke = BADGE_FILL
        badge_x = x + box.width - 40
        parts.append(
            f'<rect x="{badge_x:.1f}" y="{first - 11:.1f}" width="32" height="14" rx="7" fill="{fill}"'
            f' stroke="{stroke}" stroke-width="0.8"/><text x="{badge_x + 16:.1f}" y="{first - 0.6:.1f}"'
            f' font-size="9" font-weight="600" text-anchor="middle" fill="{stroke}">{badge}</text>'
        )
    for number, note in enumerate(notes, 1):
        parts.append(_text(text_x, first + number * _LINE_HEIGHT, note, bold=False))
    return "".join([*parts, "</g>"])


def _tooltip(node: DescribedNode) -> str:
    lines = [f"{node.name}: {node.what}"]
    if node.runs is not None:
        lines.append(f"runs: {node.runs.value}")
    if node.state is not None:
        lines += [each for each in (node.state.windows, node.state.emits) if each]
        lines.append(f"keeps {node.state.what}, {node.state.kept}")
    return "\n".join(lines)


def _disk(x: float, y: float, stroke: str) -> str:
    """A small standing cylinder: the sign of state."""
    return (
        f'<path d="M{x - 7:.1f} {y - 6:.1f} v12 a7 3 0 0 0 14 0 v-12" fill="#ffffff" fill-opacity="0.6"'
        f' stroke="{stroke}"/><ellipse cx="{x:.1f}" cy="{y - 6:.1f}" rx="7" ry="3" fill="#ffffff"'
        f' stroke="{stroke}"/>'
    )


def _topic(box: _Box, *, internal: bool) -> str:
    """A lying cylinder, dashed where it belongs to the application alone."""
    x, y, right = box.x - box.width / 2, box.y - box.height / 2, box.x + box.width / 2
    fill, stroke = TOPIC_FILL
    half, cap = box.height / 2, 8
    dash = ' stroke-dasharray="5 3"' if internal else ""
    kind = "internal topic" if internal else "topic"
    return (
        f"<g><title>{kind} {_escaped(box.name)}</title>"
        f'<path d="M{x + cap:.1f} {y:.1f} H{right - cap:.1f} a{cap} {half:.1f} 0 0 1 0 {box.height:.1f}'
        f' H{x + cap:.1f} a{cap} {half:.1f} 0 0 1 0 -{box.height:.1f} z" fill="{fill}"'
        f' stroke="{stroke}"{dash}/>'
        f'<ellipse cx="{right - cap:.1f}" cy="{box.y:.1f}" rx="{cap}" ry="{half:.1f}" fill="#ffffff"'
        f' fill-opacity="0.5" stroke="{stroke}"{dash}/>'
        f"{_text(box.x - cap / 2, box.y + 4.5, _short(box.name), bold=True)}</g>"
    )


def _text(x: float, y: float, text: str, *, bold: bool) -> str:
    style = 'font-size="12.5" font-weight="600"' if bold else 'font-size="10.5"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style} text-anchor="middle" fill="{TEXT}">{_escaped(text)}</text>'


def _legend(left: float, top: float, whole: DescribedTopology) -> tuple[list[str], float]:
    """A line that explains the shapes that occur; and how wide it is."""
    nodes = [node for query in whole.queries for node in query.nodes]
    entries = [
        (kind.value, *FILL[kind], 7.0 if kind in (Kind.SOURCE, Kind.SINK) else 3.0, "")
        for kind in Kind
        if any(node.kind is kind for node in nodes)
    ]
    entries.append(("topic", *TOPIC_FILL, 5.0, ""))
    if whole.internal_topics:
        entries.append(("internal topic", *TOPIC_FILL, 5.0, ' stroke-dasharray="3 2"'))
    if any(node.runs is Runs.PYTHON for node in nodes):
        entries.append(("py: Python, a record at a time", *BADGE_FILL, 7.0, ""))
    if any(node.runs is Runs.VECTORIZED for node in nodes):
        entries.append(("py []: Python, vectorized", *BADGE_FILL, 7.0, ""))
    parts, x = [], left
    for text, fill, stroke, radius, dash in entries:
        parts.append(
            f'<rect x="{x:.1f}" y="{top + 6:.1f}" width="22" height="14" rx="{radius}" fill="{fill}"'
            f' stroke="{stroke}"{dash}/><text x="{x + 28:.1f}" y="{top + 17:.1f}" font-size="10.5"'
            f' fill="{GREY}">{_escaped(text)}</text>'
        )
        x += 28 + len(text) * _NOTE_PIXELS + 18
    return parts, x - left


def _escaped(text: str) -> str:
    return html.escape(text, quote=True)
