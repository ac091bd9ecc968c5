"""`ottla connect plugins`: the plugins that workers have, and the settings of one."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.connect.session import Session, asks_connect
from ottla.cli.frame.commands import command
from ottla.cli.frame.errors import ExitCode
from ottla.cli.frame.table import Column

PLUGIN_COLUMNS: Final = (Column("class"), Column("type"), Column("version"))
SETTING_COLUMNS: Final = (
    Column("name"),
    Column("type", show=lambda kind: str(kind).lower()),
    Column("default"),
    Column("importance", show=lambda text: str(text).lower()),
    Column("documentation"),
)


@command(
    "plugins",
    examples=[
        "ottla connect plugins",
        "ottla connect plugins --all --json",
        "ottla connect plugins org.apache.kafka.connect.file.FileStreamSourceConnector",
    ],
)
@click.argument("plugin", required=False, metavar="[CLASS]")
@click.option("--all", "all_", is_flag=True, help="Converters, transformations and predicates as well.")
@asks_connect
def plugins(session: Session, plugin: str | None, all_: bool) -> int:
    """List the connectors that workers have, with classes and versions; or the settings of one plugin."""
    if plugin is not None:
        rows = [_setting(each) for each in session.api.plugin_config(plugin)]
        session.output.listing(rows, SETTING_COLUMNS, empty=f"{plugin} has no settings")
        return ExitCode.DONE
    found = sorted(session.api.plugins(not all_), key=lambda each: (each.get("type"), each.get("class")))
    session.output.listing(found, PLUGIN_COLUMNS, name="class", empty="there are no plugins")
    return ExitCode.DONE


def _setting(definition: dict[str, Any]) -> dict[str, Any]:
    """The row of a setting, from its definition."""
    return {
        "name": definition.get("name"),
        "type": definition.get("type"),
        "required": definition.get("required"),
        "default": "(required)" if definition.get("required") else definition.get("default_value"),
        "importance": definition.get("importance"),
        "documentation": definition.get("documentation"),
    }
