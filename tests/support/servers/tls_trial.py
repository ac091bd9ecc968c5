"""Certificates for tests: an authority, nodes of this machine, clients; in files and as Kafka's settings."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

from ottla.security.making_certificates import Authority, Issued

HOSTS = ("localhost", "127.0.0.1")
PASSWORD = "store-secret"
NOW = datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True, slots=True)
class Trial:
    """An authority and the directory of its files."""

    directory: Path
    authority: Authority

    @classmethod
    def create(cls, directory: Path, name: str = "CA") -> Trial:
        """A new authority; its certificate is in `ca.pem`."""
        directory.mkdir(parents=True, exist_ok=True)
        trial = cls(directory, Authority.create(name, NOW, 30))
        trial.ca.write_bytes(trial.authority.certificate_pem())
        return trial

    @property
    def ca(self) -> Path:
        """The authority's certificate."""
        return self.directory / "ca.pem"

    def node(self, name: str = "broker", hosts: tuple[str, ...] = HOSTS, days: int = 30) -> Issued:
        """A node's key and certificate."""
        return self.authority.issue(name, NOW, days, hosts=hosts)

    def client(self, name: str, uri: str | None = None) -> Issued:
        """A client's."""
        return self.authority.issue(name, NOW, 30, uri=uri)

    def write(self, name: str, issued: Issued) -> Path:
        """The PEM file of a key and its chain."""
        path = self.directory / f"{name}.pem"
        draft = path.with_suffix(".new")
        draft.write_bytes(issued.pem())
        return draft.rename(path)

    def settings(self, issued: Issued | None = None, prefix: str = "") -> dict[str, str]:
        """A node's settings: files of PEM."""
        node = self.write("node", issued or self.node())
        return {f"{prefix}ssl.keystore.location": str(node), f"{prefix}ssl.truststore.location": str(self.ca)}

    def context(self, issued: Issued | None = None) -> ssl.SSLContext:
        """A client's context that trusts the authority, and shows a certificate if one is given."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if issued is not None:
            shown = self.directory / "shown.pem"
            shown.write_bytes(issued.pem())
            context.load_cert_chain(shown)
        return context
