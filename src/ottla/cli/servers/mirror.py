"""`ottla mirror FILE`: copies topics and groups between clusters, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.frame.commands import command
from ottla.cli.servers.given_settings import given_from
from ottla.cli.servers.options import allow_anonymous_option, log_level_option, metrics_option
from ottla.cli.servers.service_command import log_service_to_stderr, run_service
from ottla.config.sources import SET, Layer, from_mapping, layered
from ottla.connect.plugins.catalog import installed_plugins
from ottla.metrics import settings as metrics_settings
from ottla.mirror.run import settings
from ottla.mirror.run.flows import Mm2File
from ottla.mirror.run.service import MirrorService
from ottla.web.authentication_settings import ALLOW_ANONYMOUS


@command(
    "run",
    examples=[
        "ottla mirror mm2.properties",
        "ottla mirror mm2.properties --clusters B --metrics 127.0.0.1:9404",
        "ottla mirror run mm2.properties --set 'A->B.topics=orders.*' --listen 127.0.0.1:0",
    ],
)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--clusters",
    multiple=True,
    metavar="ALIAS…",
    help="Targets: only flows into these clusters run here. [default: all]",
)
@click.argument("more_clusters", nargs=-1, metavar="[ALIAS]…")
@click.option("--listen", metavar="HOST:PORT,…", help="Where HTTP clients and other copies connect.")
@allow_anonymous_option
@metrics_option()
@click.option(SET, "set_words", metavar="KEY=VALUE", multiple=True, help="A setting; may be repeated.")
@log_level_option
def run(
    file: Path,
    clusters: tuple[str, ...],
    more_clusters: tuple[str, ...],
    listen: str | None,
    allow_anonymous: bool,
    metrics: str | None,
    set_words: tuple[str, ...],
    log_level: str,
) -> int:
    """Copy topics and groups between clusters, as an mm2.properties file of MirrorMaker 2 says.

    Copies of this process with the same FILE share the work. `--clusters A B` runs flows into A and B alone.
    """
    log_service_to_stderr(log_level)
    given = given_from(file, set_words, settings.TABLE)
    own = {
        settings.LISTENERS.name: listen,
        metrics_settings.LISTEN.name: metrics,
        ALLOW_ANONYMOUS.name: "true" if allow_anonymous else None,
    }
    for name, text in own.items():
        if text is not None:
            given = layered(given, from_mapping({name: text}, Layer.COMMAND, name))
    program = settings.own_settings(given)
    parsed = Mm2File(given, program[settings.CLUSTERS], installed_plugins())
    if more_clusters and not clusters:
        raise click.UsageError("aliases of clusters go behind --clusters")
    wanted = [alias for word in (*clusters, *more_clusters) for alias in word.split(",") if alias]
    plans = parsed.flows(wanted or None)
    parsed.warn_of_unknown()
    return run_service(lambda found: MirrorService(found, plans), program, settings.LISTENERS)
