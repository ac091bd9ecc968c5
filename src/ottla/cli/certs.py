"""`ottla certs`: an authority and certificates for trying out TLS, and a look at any certificate."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.frame.cluster import mode_of, output_options
from ottla.cli.frame.commands import group
from ottla.cli.frame.output import Output
from ottla.config.errors import UsageError, UserError

if TYPE_CHECKING:
    from ottla.security.making_certificates import Authority

AUTHORITY_NAME: Final = "ottla trial CA"
AUTHORITY_DAYS: Final = 3650
AUTHORITY_FILE: Final = "ca-key.pem"
TRUSTED_FILE: Final = "ca.pem"
HERE: Final = ("localhost", "127.0.0.1", "::1")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOST: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9.*_-]{0,252}|[0-9a-fA-F:]{2,39}")
_RESERVED: Final = frozenset(("ca", "ca-key", "truststore"))


@group("certs", examples=["ottla certs create --client alice", "ottla certs show certs/alice.pem"])
def certs() -> None:
    """Make certificates for trying out TLS, and look at certificates.

    The authority's key is a file without a password, which is fit for a trial, and for nothing else.
    """


@certs.command(
    "create",
    examples=[
        "ottla certs create",
        "ottla certs create --dir certs --host kafka-1.example.org --client alice",
        "ottla certs create --node node-2 --host kafka-2.example.org",
    ],
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("certs"),
    show_default=True,
    metavar="DIR",
    help="The directory of the files. An authority that is there signs again.",
)
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME",
    help="A node to make a certificate for; may be repeated.",
)
@click.option("--client", "clients", multiple=True, metavar="NAME", help="A client; may be repeated.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A name or address of the nodes, beside localhost; may be repeated.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 825),
    default=365,
    show_default=True,
    help="How long the certificates are valid.",
)
@click.option("--password", metavar="TEXT", help="That of the PKCS12 files. [default: a random one]")
@output_options
def create(
    directory: Path,
    nodes: tuple[str, ...],
    clients: tuple[str, ...],
    hosts: tuple[str, ...],
    days: int,
    password: str | None,
    json: bool,
    quiet: bool,
) -> None:
    """Make an authority, and certificates of nodes and clients that it signs.

    Without --node and --client, one for a node named broker. For each there is a PEM file, a PKCS12 file,
    and a properties file for `ottla broker --config` or a client's --command-config. Nothing is overwritten.
    """
    nodes = nodes or (() if clients else ("broker",))
    _require_names((*nodes, *clients), hosts)
    files = _Files(directory)
    files.require_absent((*nodes, *clients))
    password = password or secrets.token_urlsafe(18)
    now = datetime.datetime.now(datetime.UTC)
    authority = _authority(files, now)
    made: list[Path] = []
    for name in (*nodes, *clients):
        is_node = name in nodes
        issued = authority.issue(name, now, days, hosts=(*HERE, *hosts) if is_node else ())
        files.write(f"{name}.pem", issued.pem())
        files.write(f"{name}.p12", issued.pkcs12(name, password))
        files.write(f"{name}.truststore.p12", authority.truststore(password))
        # Last: who finds it finds the others.
        made.append(files.write(f"{name}.properties", _properties(files, name, password, is_node=is_node)))
    shown = ", ".join(str(each) for each in made)
    Output(mode_of(json, quiet)).done(
        f"certificates made, settings in {shown}",
        {"authority": str(files.path(TRUSTED_FILE)), "settings": [str(each) for each in made]},
        name="settings",
    )


def _require_names(names: Sequence[str], hosts: Sequence[str]) -> None:
    """Raises UsageError."""
    for name in names:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise UsageError(f"{name!r} can't be the name of a node or client: letters, digits, . _ and -")
    if len(set(names)) < len(names):
        raise UsageError("each node and client needs a name of its own")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise UsageError(f"--host {host}: it is neither a name nor an address")


class _Files:
    """The files of one directory, each readable for its owner alone, and never written twice."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, name: str) -> Path:
        return self._directory / name

    def require_absent(self, names: Sequence[str]) -> None:
        """Raises UserError."""
        for name in names:
            for ending in ("pem", "p12", "truststore.p12", "properties"):
                if self.path(f"{name}.{ending}").exists():
                    raise UserError(
                        f"{self.path(f'{name}.{ending}')} exists, and nothing is overwritten: "
                        "move it, or choose another name or --dir"
                    )

    def write(self, name: str, data: bytes) -> Path:
        """Write a whole file, or none. Raises UserError."""
        path = self.path(name)
        draft = path.with_name(f".{name}.{secrets.token_hex(4)}")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)  # fails where the name is taken, unlike a rename
        except FileExistsError:
            raise UserError(f"{path} exists, and nothing is overwritten") from None
        except OSError as problem:
            raise UserError(f"can't write {path}: {problem.strerror}") from None
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        return path


def _authority(files: _Files, now: datetime.datetime) -> Authority:
    """The authority of the directory, made if it has none. Raises UserError."""
    from ottla.security.making_certificates import Authority, UnusableAuthority

    path = files.path(AUTHORITY_FILE)
    if path.exists():
        try:
            found = Authority.read(path.read_bytes())
        except (OSError, UnusableAuthority) as problem:
            raise UserError(f"{path} is no authority that `ottla certs` made: {problem}") from None
    else:
        found = Authority.create(AUTHORITY_NAME, now, AUTHORITY_DAYS)
        files.write(AUTHORITY_FILE, found.pem())
    if not files.path(TRUSTED_FILE).exists():
        files.write(TRUSTED_FILE, found.certificate_pem())
    return found


def _properties(files: _Files, name: str, password: str, *, is_node: bool) -> bytes:
    """The settings of Kafka that name the files."""
    from ottla.config.java_properties import properties_text

    here = files.path("").resolve()
    if is_node:
        settings = {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(here / f"{name}.p12"),
            "ssl.keystore.password": password,
            "ssl.key.password": password,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(here / f"{name}.truststore.p12"),
            "ssl.truststore.password": password,
        }
    else:  # clients that are no Java programs take PEM, and so do Java's
        settings = {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(here / f"{name}.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(here / TRUSTED_FILE),
        }
    return properties_text(settings).encode()


# -- show --------------------------------------------------------------------------------------------------


@certs.command("show", examples=["ottla certs show certs/alice.pem"])
@click.argument("file", type=click.Path(path_type=Path))
@output_options
def show(file: Path, json: bool, quiet: bool) -> None:
    """Show the names in the first certificate of a PEM file, as a broker sees them, and its time."""
    from cryptography import x509

    from ottla.security.certificate_names import MalformedCertificate, names_of_pem
    from ottla.security.distinguished_names import MalformedName, rfc2253_name

    try:
        data = file.read_bytes()
        names = names_of_pem(data)
        subject = rfc2253_name(names.subject)
    except OSError as problem:
        raise UserError(f"can't read {file}: {problem.strerror}") from None
    except (MalformedCertificate, MalformedName) as problem:
        raise UserError(f"{file} has no certificate in PEM: {problem}") from None
    certificate = x509.load_pem_x509_certificate(data)
    Output(mode_of(json, quiet)).facts(
        {
            "principal": f"User:{subject}",
            "names": ", ".join(sorted(names.alternative_names)) or None,
            "valid_from": certificate.not_valid_before_utc.isoformat(),
            "valid_until": certificate.not_valid_after_utc.isoformat(),
        },
        name="principal",
    )
