"""`ottla profile`: clusters by name, and the one that commands ask if none is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ottla.cli.frame.cluster import mode_of, output_options
from ottla.cli.frame.cluster_choice import BOOTSTRAP_SERVERS, BOOTSTRAP_VARIABLE, PROFILE_VARIABLE
from ottla.cli.frame.commands import group
from ottla.cli.frame.completing import complete_profiles
from ottla.cli.frame.confirming import confirm, yes_option
from ottla.cli.frame.options import pairs_option
from ottla.cli.frame.output import Output
from ottla.cli.frame.profiles import Profiles
from ottla.cli.frame.table import Column
from ottla.client.access import ClusterAccess
from ottla.config.errors import UsageError, UserError
from ottla.config.setting import HIDDEN
from ottla.config.sources import SET, from_file, from_words, texts
from ottla.config.unsupported import is_secret

SECURITY_PROTOCOL = "security.protocol"


@group(
    "profile",
    examples=["ottla profile add local --bootstrap 127.0.0.1:9092 --use", "ottla profile list"],
)
def profile() -> None:
    """Name clusters, and choose the one that commands ask.

    A command asks the cluster that its line names (--bootstrap, --profile, or bootstrap.servers in --set or
    --command-config); else the one that the environment names (OTTLA_BOOTSTRAP, OTTLA_PROFILE); else that of
    the current profile; else 127.0.0.1:9092. A profile gives its settings to no other place's servers: no
    password is sent to a server that it is not for.

    A profile is a properties file with settings of Kafka clients in ~/.config/ottla/profiles that only its
    owner can read; Kafka's own tools take it as their --command-config.
    """


def _settings_options(function: Any) -> Any:
    for option in (
        pairs_option(SET, "set_words", "One setting of the Kafka client; may be repeated."),
        click.option(
            "--command-config",
            "--config",
            "command_config",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Take over the settings of a client's properties file (TLS, SASL).",
        ),
        click.option("--bootstrap", metavar="HOST:PORT,…", help="The cluster's brokers."),
    ):
        function = option(function)
    return function


def _settings(
    bootstrap: str | None, command_config: Path | None, set_words: tuple[str, ...]
) -> dict[str, str]:
    """The settings that options give. Raises UserError."""
    found = {} if command_config is None else texts(from_file(command_config))
    found |= texts(from_words(set_words))
    return found | ({BOOTSTRAP_SERVERS: bootstrap} if bootstrap else {})


def _require_usable(settings: dict[str, str]) -> None:
    """Raises UserError for settings that no client can have."""
    others = {name: value for name, value in settings.items() if name != BOOTSTRAP_SERVERS}
    access = ClusterAccess(settings[BOOTSTRAP_SERVERS], others)
    access.require_common_properties()
    access.addresses()


@profile.command("list", examples=["ottla profile list"])
@output_options
def list_(json: bool, quiet: bool) -> None:
    """List the profiles; `*` marks the current one."""
    profiles = Profiles()
    current = profiles.current()
    rows = []
    for name in profiles.names():
        settings = texts(profiles.read(name))
        rows.append(
            {
                "name": name,
                "current": name == current,
                "bootstrap": settings.get(BOOTSTRAP_SERVERS),
                "security": settings.get(SECURITY_PROTOCOL, "PLAINTEXT"),
            }
        )
    columns = [
        Column("current", " ", show=lambda current: "*" if current else " "),
        Column("name"),
        Column("bootstrap"),
        Column("security"),
    ]
    empty = "there is no profile; `ottla profile add NAME --bootstrap HOST:PORT` makes one"
    Output(mode_of(json, quiet)).listing(rows, columns, empty=empty)


@profile.command(
    "add",
    examples=[
        "ottla profile add local --bootstrap 127.0.0.1:9092 --use",
        "ottla profile add production --bootstrap kafka-1:9093,kafka-2:9093 --config client.properties",
    ],
)
@click.argument("name")
@_settings_options
@click.option("--use", is_flag=True, help="Make it the current profile.")
@output_options
def add(
    name: str,
    bootstrap: str | None,
    command_config: Path | None,
    set_words: tuple[str, ...],
    use: bool,
    json: bool,
    quiet: bool,
) -> None:
    """Add a profile."""
    profiles = Profiles()
    settings = _settings(bootstrap, command_config, set_words)
    if BOOTSTRAP_SERVERS not in settings:
        raise UsageError("a profile needs the cluster's brokers: give --bootstrap HOST:PORT")
    _require_usable(settings)
    if profiles.path(name).exists():
        raise UserError(f"profile {name} exists already; `ottla profile set {name}` changes it")
    profiles.write(name, settings)
    if use:
        profiles.use(name)
    said = f"profile {name} is added" + (" and current" if use else "")
    Output(mode_of(json, quiet)).done(said, {"name": name, "current": profiles.current() == name})


@profile.command(
    "set",
    examples=[
        "ottla profile set production --set sasl.password=…",
        "ottla profile set production --bootstrap kafka-1:9093 --unset ssl.ca.location",
    ],
)
@click.argument("name", shell_complete=complete_profiles)
@_settings_options
@click.option("--unset", multiple=True, metavar="KEY", help="Remove a setting; may be repeated.")
@output_options
def set_(
    name: str,
    bootstrap: str | None,
    command_config: Path | None,
    set_words: tuple[str, ...],
    unset: tuple[str, ...],
    json: bool,
    quiet: bool,
) -> None:
    """Change settings of a profile; the others stay."""
    profiles = Profiles()
    settings = texts(profiles.read(name))
    if missing := [key for key in unset if key not in settings]:
        raise UserError(f"profile {name} has no setting {missing[0]}")
    settings |= _settings(bootstrap, command_config, set_words)
    settings = {key: value for key, value in settings.items() if key not in unset}
    if BOOTSTRAP_SERVERS not in settings:
        raise UserError(f"profile {name} needs {BOOTSTRAP_SERVERS}")
    _require_usable(settings)
    profiles.write(name, settings)
    Output(mode_of(json, quiet)).done(f"profile {name} is changed", {"name": name})


@profile.command("show", examples=["ottla profile show", "ottla profile show production --json"])
@click.argument("name", required=False, shell_complete=complete_profiles)
@output_options
def show(name: str | None, json: bool, quiet: bool) -> None:
    """Show a profile's settings, the current one's if none is named; passwords and keys stay hidden."""
    profiles = Profiles()
    current = profiles.current()
    shown = name or current
    if shown is None:
        raise UserError("there is no current profile; `ottla profile use NAME` chooses one")
    settings = {
        key: HIDDEN if is_secret(key) else value for key, value in sorted(texts(profiles.read(shown)).items())
    }
    output = Output(mode_of(json, quiet))
    facts = {"name": shown, "current": shown == current, "file": str(profiles.path(shown))}
    if output.for_people:
        output.facts(facts | settings)
    else:
        output.facts(facts | {"settings": settings})


@profile.command("use", examples=["ottla profile use production", "ottla profile use --none"])
@click.argument("name", required=False, shell_complete=complete_profiles)
@click.option("--none", is_flag=True, help="Leave no profile current.")
@output_options
def use(name: str | None, none: bool, json: bool, quiet: bool) -> None:
    """Make a profile the current one."""
    if none == (name is not None):
        raise UsageError("name a profile, or give --none")
    Profiles().use(name)
    said = "no profile is current" if name is None else f"profile {name} is current"
    output = Output(mode_of(json, quiet))
    output.done(said, {"current": name}, name="current" if name else "")
    if winning := [each for each in (BOOTSTRAP_VARIABLE, PROFILE_VARIABLE) if _is_set(each)]:
        output.warn(f"{winning[0]} is set, and wins over the current profile")


@profile.command("remove", examples=["ottla profile remove production --yes"])
@click.argument("name", shell_complete=complete_profiles)
@yes_option
@output_options
def remove(name: str, yes: bool, json: bool, quiet: bool) -> None:
    """Remove a profile."""
    profiles = Profiles()
    profiles.read(name)
    confirm(f"remove profile {name}", yes)
    profiles.remove(name)
    Output(mode_of(json, quiet)).done(f"profile {name} is removed", {"name": name})


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable))
