"""A real Keycloak from Maven, with https on a free port, for tests of tokens."""

from __future__ import annotations

import json
import ssl
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from ottla.pipeline.spark.java_runtime import find_java
from ottla.pipeline.spark.maven import Jar, fetch_jars
from support.servers.cluster import ServerProcess, free_port
from support.servers.tls_trial import Trial

VERSION = "26.0.8"
DISTRIBUTION = Jar(
    "org.keycloak",
    "keycloak-quarkus-dist",
    VERSION,
    "d82a52098db41f036bcfe8f2ebfd9251781c8af5959af8714e8aa9b311081786",
    "zip",
)
START_TIMEOUT_S = 240
ASK_TIMEOUT_S = 30
REALM = "trial"
ADMIN = "admin"
ADMIN_PASSWORD = "admin-of-the-trial"


@dataclass(frozen=True, slots=True)
class Keycloak:
    """A realm of a running server."""

    port: int
    context: ssl.SSLContext

    @property
    def issuer(self) -> str:
        return f"https://localhost:{self.port}/realms/{REALM}"

    @property
    def token_url(self) -> str:
        return f"{self.issuer}/protocol/openid-connect/token"

    @property
    def keys_url(self) -> str:
        return f"{self.issuer}/protocol/openid-connect/certs"

    def token(self, client_id: str, secret: str) -> str:
        """A token for a client's secret."""
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
        return str(self._asked("POST", self.token_url, form)["access_token"])

    def signing_keys(self) -> list[str]:
        """The ids of the components that hold the realm's keys for RS256."""
        found = self._administered("GET", "components?type=org.keycloak.keys.KeyProvider")
        return [each["id"] for each in found if each["providerId"] == "rsa-generated"]

    def add_signing_key(self) -> None:
        """Another key, which signs from now on; the others stay."""
        realm = self._administered("GET", "")
        config = {"priority": ["1000"], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]}
        component = {
            "name": "newer",
            "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "parentId": realm["id"],
            "config": config,
        }
        self._administered("POST", "components", component)

    def remove_signing_key(self, component_id: str) -> None:
        """A key that is no longer published."""
        self._administered("DELETE", f"components/{component_id}")

    def _administered(self, method: str, path: str, body: Any = None) -> Any:
        form = {
            "grant_type": "password",
            "client_id": "admin-cli",
            "username": ADMIN,
            "password": ADMIN_PASSWORD,
        }
        master = f"https://localhost:{self.port}/realms/master/protocol/openid-connect/token"
        token = self._asked("POST", master, form)["access_token"]
        url = f"https://localhost:{self.port}/admin/realms/{REALM}" + (f"/{path}" if path else "")
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        return self._answered(Request(url, data, headers, method=method))

    def _asked(self, method: str, url: str, form: Mapping[str, str]) -> Any:
        return self._answered(Request(url, urlencode(form).encode(), method=method))

    def _answered(self, request: Request) -> Any:
        with urlopen(request, timeout=ASK_TIMEOUT_S, context=self.context) as answer:
            text = answer.read()
        return json.loads(text) if text else None


@contextmanager
def keycloak(directory: Path, trial: Trial, clients: list[dict[str, Any]]) -> Iterator[Keycloak]:
    """Keycloak with a realm of these clients, while the block runs; its certificate is the trial's."""
    java = find_java()
    (archive,) = fetch_jars([DISTRIBUTION])
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(directory)
    home = directory / f"keycloak-{VERSION}"
    (home / "bin" / "kc.sh").chmod(0o755)
    realm = {"realm": REALM, "enabled": True, "clients": clients}
    imported = home / "data" / "import"
    imported.mkdir(parents=True)
    (imported / "realm.json").write_text(json.dumps(realm))
    pair = trial.write("keycloak", trial.node("keycloak"))
    port = free_port()
    command = [str(home / "bin" / "kc.sh"), "start-dev", "--import-realm", "--http-host=127.0.0.1"]
    command += [f"--https-port={port}", f"--http-port={free_port()}", f"--hostname=https://localhost:{port}"]
    command += [f"--https-certificate-file={pair}", f"--https-certificate-key-file={pair}"]
    environment = {
        "JAVA_HOME": str(java.executable.parent.parent),
        "JAVA_OPTS_KC_HEAP": "-Xms64m -Xmx512m",
        "KC_BOOTSTRAP_ADMIN_USERNAME": ADMIN,
        "KC_BOOTSTRAP_ADMIN_PASSWORD": ADMIN_PASSWORD,
    }
    server = ServerProcess(
        command,
        "Running the server in development mode",
        directory / "keycloak.log",
        START_TIMEOUT_S,
        environment=environment,
    )
    try:
        server.start()
        yield Keycloak(port, trial.context())
    finally:
        if server.running:
            server.stop()
