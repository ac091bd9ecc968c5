"""The protection of one service, from its settings: TLS, the authentication and the rights of its clients.

A service is given it with its FrontOptions; the front asks it about each request, and the server has it look
at its files. So a service has all of this by its settings alone.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from ottla.config.loopback import is_loopback
from ottla.config.settings import Settings
from ottla.security.bearer_tokens import TokenRules, UnusableKeys
from ottla.security.key_set_source import KeySetSource, KeysUnreachable
from ottla.security.key_stores import KeyStoreError
from ottla.security.principal_mapping import DEFAULT_RULES, InvalidMappingRules, PrincipalMapper
from ottla.security.provider_keys import ProviderKeys
from ottla.security.realm_file import UnusableRealm, read_realm
from ottla.security.server_tls import ClientAuthentication
from ottla.security.watched_files import WATCH_SECONDS, WatchedFiles
from ottla.web import authentication_settings as names
from ottla.web import tls_settings
from ottla.web.access_rules import UNLIMITED, AccessRules, Grants, UnusableRules, parse_rules, read_rules
from ottla.web.application import error_answer
from ottla.web.authentication import (
    USER,
    CertificatePrincipals,
    PasswordChecks,
    TokenChecks,
    Unauthenticated,
    authorization_of,
    basic_credentials,
)
from ottla.web.authentication_settings import Method
from ottla.web.callers import ANONYMOUS, CERTIFICATE, BasicCredentials, Caller
from ottla.web.errors import ServiceError

log = logging.getLogger("ottla.web")

JSON: Final = "application/json"


class Security:
    """The protection of a service with these settings."""

    def __init__(self, settings: Settings, *, passes_credentials_on: bool = False) -> None:
        """passes_credentials_on: whether the service has the cluster check its clients' passwords.

        Raises ConfigError for settings and files that can't be used.
        """
        self._settings = settings
        self._method = settings[names.METHOD]
        roles = settings[names.ROLES]
        self._roles = frozenset(roles)
        self._realm = settings[names.REALM].replace('"', "'")
        self._skipped = settings[names.SKIP_PATHS]
        self._watched: list[WatchedFiles[Any]] = []
        self._contexts: dict[str, WatchedFiles[ssl.SSLContext]] = {}
        self._passwords: PasswordChecks | None = None
        self._tokens: TokenChecks | None = None
        self._certificates = self._certificate_names()
        match self._method:
            case Method.BASIC:
                self._passwords = self._password_checks(passes_credentials_on)
            case Method.BEARER:
                self._tokens = self._token_checks()
        self._rules = self._access_rules()
        self._require_method_that_is_asked_for()
        self._is_open = self._method is Method.NONE
        self.asks_nothing: Final = self._is_open and self._rules is None
        """Whether a request without TLS is answered without a look at its client."""

    @property
    def method(self) -> Method:
        """How clients prove who they are."""
        found: Method = self._method
        return found

    # -- listeners ------------------------------------------------------------------------------------

    def tls_context(self, listener: str) -> WatchedFiles[ssl.SSLContext]:
        """The TLS of the listener of this name, in lower case. Raises ConfigError."""
        if listener not in self._contexts:
            tls = tls_settings.tls_of(self._settings, listener)
            try:
                made = WatchedFiles(f"the TLS of listener {listener}", tls.paths, tls.context)
            except KeyStoreError as problem:
                raise self._refusal(tls_settings.KEYSTORE_LOCATION.name, problem) from None
            self._contexts[listener] = made
            if self._settings[tls_settings.KEYSTORE_RELOAD]:
                self._watched.append(made)
        return self._contexts[listener]

    def peer_context(self, listener: str, *, checks_host: bool) -> WatchedFiles[ssl.SSLContext]:
        """The TLS of connections to other instances, as that of a listener. Raises ConfigError."""
        tls = tls_settings.tls_of(self._settings, listener)
        try:
            made = WatchedFiles(
                "the TLS towards other instances",
                tls.paths,
                lambda: tls.peer_context(checks_host=checks_host),
            )
        except KeyStoreError as problem:
            raise self._refusal(tls_settings.KEYSTORE_LOCATION.name, problem) from None
        if self._settings[tls_settings.KEYSTORE_RELOAD]:
            self._watched.append(made)
        return made

    def require_known_clients(
        self, name: str, places: Sequence[tuple[str, int, str | None]], *, warns: bool = True
    ) -> None:
        """Refuse to be open to other machines, unless the settings say so; then warn in a line.

        places: the host and port of each listener, with its name if it has TLS. Raises ServiceError.
        """
        self._require_tls_that_is_asked_for(name, [listener for _, _, listener in places])
        open_places = ", ".join(
            f"{host}:{port}" for host, port, listener in places if self._is_open_at(host, listener)
        )
        if not open_places:
            return
        allow = names.ALLOW_ANONYMOUS.name
        if not self._settings[names.ALLOW_ANONYMOUS]:
            raise ServiceError(
                f"ottla {name} would serve {open_places} to any machine that reaches it, without asking who "
                f"its clients are: set {names.METHOD.name} or ssl.client.authentication=REQUIRED, or start "
                f"it with --allow-anonymous ({allow}=true) if any client may use it"
            )
        if warns:
            log.warning(
                "ottla %s serves %s to any machine that reaches it (%s=true)", name, open_places, allow
            )

    def _require_tls_that_is_asked_for(self, name: str, listeners: Sequence[str | None]) -> None:
        """Raises ServiceError where certificates of clients are asked for, and no listener has TLS."""
        if any(listener is not None for listener in listeners):
            return
        if tls_settings.tls_of(self._settings, "").client_authentication is not ClientAuthentication.NONE:
            raise ServiceError(
                f"ottla {name} is to ask its clients for certificates, but none of its listeners is https"
            )
        if self._settings[tls_settings.KEYSTORE_LOCATION] is not None:
            log.warning("ottla %s has keys for TLS, but none of its listeners is https", name)

    def _is_open_at(self, host: str, listener: str | None) -> bool:
        if not self._is_open or is_loopback(host) or host == "localhost":
            return False
        if listener is None:
            return True
        tls = tls_settings.tls_of(self._settings, listener)
        return tls.client_authentication is not ClientAuthentication.REQUIRED

    # -- requests -------------------------------------------------------------------------------------

    def grants(self, caller: Caller) -> Grants:
        """What a caller may do."""
        return UNLIMITED if self._rules is None else self._rules.value.grants(caller.principal, caller.roles)

    async def admit(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> Caller | Response:
        """The client of a request, or the refusal to answer it. headers: those by which it proves itself."""
        if self._is_skipped(scope):
            return ANONYMOUS
        try:
            caller = await self._caller(scope, headers)
        except Unauthenticated as problem:
            return self.refusal(scope, problem)
        if self._method is not Method.NONE and not self._roles & (caller.roles | names.ANY_ROLE):
            return error_answer(403, 403, "Forbidden", JSON)
        return caller

    async def prove(self, name: str, secret: str, certificate: bytes | None) -> Caller:
        """The client of a connection that is no HTTP request. Raises Unauthenticated; its status is HTTP's.

        name, secret: of BASIC; of BEARER the secret is the token, whatever the name is. Where neither is
        asked for, the certificate (DER) names the client, if it has shown one.
        """
        if self._method is Method.NONE:
            return ANONYMOUS if certificate is None else Caller(self._certificates.principal(certificate))
        if not secret:
            raise Unauthenticated("The client has given no password or token")
        if self._tokens is not None:
            caller = await self._tokens.caller(secret)
        else:
            assert self._passwords is not None, "only a service that passes credentials on has none"
            caller = await self._passwords.caller(BasicCredentials(name, secret))
        if not self._roles & (caller.roles | names.ANY_ROLE):
            raise Unauthenticated("The client has none of the roles that are let in", status=403)
        return caller

    async def _caller(self, scope: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> Caller:
        if self._method is Method.NONE:
            certificate = scope.get("state", {}).get(CERTIFICATE)
            return ANONYMOUS if certificate is None else Caller(self._certificates.principal(certificate))
        scheme, rest = authorization_of(headers)
        if scheme != self._method.lower():
            raise Unauthenticated(f"The request has no header Authorization: {self._method.capitalize()}")
        if self._tokens is not None:
            return await self._tokens.caller(rest)
        credentials = basic_credentials(rest)
        if self._passwords is not None:
            return await self._passwords.caller(credentials)
        return Caller(USER + credentials.name, credentials=credentials, is_verified=False)

    def refusal(self, scope: Mapping[str, Any], problem: Unauthenticated) -> Response:
        """The answer to a request whose client has not proved who it is; a log line tells its address."""
        client = (scope.get("client") or ("?",))[0]
        log.warning("authentication failed: client=%s: %s", client, problem.reason)
        if problem.status != 401:
            return error_answer(problem.status, problem.status, problem.reason, JSON)
        answer = error_answer(401, 401, f"Unauthorized: {problem.reason}", JSON)
        if self._method is not Method.NONE:
            challenge = f'{self._method.capitalize()} realm="{self._realm}"'
            if self._method is Method.BASIC:
                challenge += ', charset="UTF-8"'
            elif "no header" not in problem.reason:
                challenge += f', error="invalid_token", error_description="{problem.reason}"'
            answer.headers["www-authenticate"] = challenge
        return answer

    def _is_skipped(self, scope: Mapping[str, Any]) -> bool:
        """Whether the path needs no authentication; such requests only read."""
        if not self._skipped or scope["method"] not in ("GET", "HEAD"):
            return False
        path: str = scope["path"]
        return any(
            path.startswith(skipped[:-1]) if skipped.endswith("/*") else path == skipped
            for skipped in self._skipped
        )

    # -- files that change ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Look at the files, and at the keys of the identity provider, for as long as the service runs."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            if self._tokens is not None:
                tasks.create_task(self._tokens.run())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if self._watched:
                await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Read files that have changed; blocks."""
        for each in self._watched:
            each.refresh()

    # -- settings -------------------------------------------------------------------------------------

    def _certificate_names(self) -> CertificatePrincipals:
        rules = self._settings[tls_settings.PRINCIPAL_MAPPING_RULES]
        try:
            mapper = PrincipalMapper(rules or DEFAULT_RULES)
        except InvalidMappingRules as problem:
            raise self._refusal(tls_settings.PRINCIPAL_MAPPING_RULES.name, problem) from None
        return CertificatePrincipals(mapper, use_spiffe_id=self._settings[tls_settings.SPIFFE_PRINCIPAL])

    def _password_checks(self, passes_credentials_on: bool) -> PasswordChecks | None:
        location = self._settings[names.USERS_FILE]
        if location is None:
            if passes_credentials_on:
                if not self._roles & names.ANY_ROLE:
                    problem = (
                        f"the cluster checks passwords, and knows no roles: it needs {names.USERS_FILE.name}"
                    )
                    raise self._refusal(names.ROLES.name, problem)
                return None
            problem = f"it needs {names.USERS_FILE.name}, the file of the users"
            raise self._refusal(names.METHOD.name, problem)
        path = Path(location)
        try:
            realm = WatchedFiles("the file of users", [path], lambda: read_realm(path))
        except UnusableRealm as problem:
            raise self._refusal(names.USERS_FILE.name, problem) from None
        self._watched.append(realm)
        return PasswordChecks(realm)

    def _token_checks(self) -> TokenChecks:
        settings = self._settings
        url = settings[names.JWKS_URL]
        if url is None:
            problem = f"it needs {names.JWKS_URL.name}, the keys of the identity provider"
            raise self._refusal(names.METHOD.name, problem)
        audiences = settings[names.AUDIENCE]
        rules = TokenRules(
            settings[names.ISSUER],
            frozenset(audiences),
            settings[names.CLOCK_SKEW_SECONDS],
            settings[names.SUB_CLAIM],
            settings[names.GROUPS_CLAIM],
        )
        if not rules.audiences:
            log.warning("tokens for any audience are taken: %s is not set", names.AUDIENCE.name)
        try:
            source = KeySetSource(url, settings[names.JWKS_CA_LOCATION])
            return TokenChecks(ProviderKeys(source, rules, settings[names.JWKS_REFRESH_MS] / 1000))
        except (UnusableKeys, KeysUnreachable) as problem:
            raise self._refusal(names.JWKS_URL.name, problem) from None

    def _access_rules(self) -> WatchedFiles[AccessRules] | None:
        inline, location = self._settings[names.ACCESS_RULES], self._settings[names.ACCESS_RULES_FILE]
        if inline is None and location is None:
            return None
        try:
            own = parse_rules((inline or "").split(";"), names.ACCESS_RULES.name)
            if location is None:
                return WatchedFiles("rules", (), lambda: AccessRules(own))
            path = Path(location)
            rules = WatchedFiles("the file of rules", [path], lambda: AccessRules([*own, *read_rules(path)]))
        except UnusableRules as problem:
            given = names.ACCESS_RULES if location is None else names.ACCESS_RULES_FILE
            raise self._refusal(given.name, problem) from None
        self._watched.append(rules)
        return rules

    def _require_method_that_is_asked_for(self) -> None:
        """Raises ConfigError for settings of a method that is not the one in force."""
        for setting, method in (
            (names.USERS_FILE, Method.BASIC),
            (names.JWKS_URL, Method.BEARER),
            (names.ISSUER, Method.BEARER),
        ):
            if self._settings[setting] is not None and self._method is not method:
                raise self._refusal(setting.name, f"it needs {names.METHOD.name}={method}")
        if self._method is Method.NONE and not self._roles & names.ANY_ROLE:
            raise self._refusal(
                names.ROLES.name, f"clients have roles with {names.METHOD.name}=BASIC or BEARER"
            )

    def _refusal(self, name: str, problem: object) -> Exception:
        return self._settings.refusal(name, str(problem))
