"""Checks of security: certificates, listeners in the clear, rights of every user, tokens, quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.config.loopback import is_loopback
from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import ListenerView, Snapshot, value_of
from ottla.doctor.units import duration_text, time_text

DAY_MS: Final = 86_400_000
ANONYMOUS: Final = "User:ANONYMOUS"
EVERYONE: Final = "User:*"
CLEAR: Final = frozenset({"PLAINTEXT", "SASL_PLAINTEXT"})
CHANGING: Final = frozenset({"all", "write", "create", "delete", "alter", "alter-configs", "cluster-action"})


def is_own_host(host: str) -> bool:
    """Whether a name or address of a listener is of this machine alone."""
    return host.lower() == "localhost" or is_loopback(host)


def _certificates(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    now_ms = snapshot.taken_ms
    expired, soon, early = [], [], []
    for one in snapshot.listeners.get():
        shown = one.certificate
        if shown is None:
            continue
        if shown.not_after_ms <= now_ms:
            expired.append(one)
        elif shown.not_before_ms > now_ms:
            early.append(one)
        elif shown.not_after_ms <= now_ms + limits.certificate_days * DAY_MS:
            soon.append(one)
    for severity, chosen, words in (
        (Severity.CRITICAL, expired, "has ended"),
        (Severity.CRITICAL, early, "does not hold yet"),
        (Severity.WARNING, soon, "ends soon"),
    ):
        if chosen:
            listed = named((f"{one.title} ({_span(one, words)})" for one in chosen), 5)
            yield Finding(
                severity,
                f"{counted(len(chosen), 'listener')} whose certificate {words}: {listed}",
                texts(one.title for one in chosen),
                "put a new certificate in the place of the old file, then name the file again, which has the "
                "broker "
                "read it",
                line(
                    *("config", "set", "broker", chosen[0].broker),
                    f"listener.name.{chosen[0].name.lower()}.ssl.keystore.location=FILE",
                ),
            )


def _span(listener: ListenerView, words: str) -> str:
    shown = listener.certificate
    assert shown is not None
    if words == "does not hold yet":
        return f"{shown.subject} from {time_text(shown.not_before_ms)}"
    return f"{shown.subject} until {time_text(shown.not_after_ms)}"


def _clear(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [one for one in snapshot.listeners.get() if one.protocol in CLEAR and not is_own_host(one.bound)]
    if found:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'listener')} without TLS beyond this machine: records"
            f"{', and passwords,' if any(one.protocol != 'PLAINTEXT' for one in found) else ''} can be read "
            "on "
            "the way",
            texts(one.title for one in found),
            "give the listeners SSL or SASL_SSL in listener.security.protocol.map; certificates for a trial "
            "are "
            "made by",
            line("certs", "create"),
        )


def _authorizer(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = []
    for node, settings in sorted(snapshot.broker_settings.get().items()):
        protocols = value_of(settings, "listener.security.protocol.map") or ""
        listeners = value_of(settings, "listeners") or ""
        used = {each.partition("://")[0].strip().upper() for each in listeners.split(",")}
        by_name = {
            pair.partition(":")[0].strip().upper(): pair.partition(":")[2].strip()
            for pair in protocols.split(",")
        }
        logins = any((by_name.get(name) or name).startswith("SASL") for name in used)
        if logins and not value_of(settings, "authorizer.class.name"):
            found.append(node)
    if found:
        yield Finding(
            Severity.WARNING,
            f"broker {named(found)} with logins and without an authorizer: who is logged in may do "
            "everything",
            texts(found),
            "set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer and "
            "super.users in "
            "server.properties of all nodes, and restart them; then allow what users need",
            line("acl", "create", "--principal", "NAME", "--topic", "NAME", "--operation", "read"),
        )


def _anonymous(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Brokers tell no settings of their authorizer, so a client without a login asks for its own rights."""
    brokers = snapshot.broker_settings.get()
    guarded = {node for node, settings in brokers.items() if value_of(settings, "authorizer.class.name")}
    open_to_all = [
        one
        for one in snapshot.listeners.get()
        if one.broker in guarded and one.anonymous is not None and not CHANGING.isdisjoint(one.anonymous)
    ]
    if open_to_all:
        yield Finding(
            Severity.CRITICAL,
            f"{counted(len(open_to_all), 'listener')} where a client without a login may change the cluster, "
            "in "
            "spite of the authorizer",
            texts(one.title for one in open_to_all),
            f"take {ANONYMOUS} out of super.users, and its ACLs away (allow.everyone.if.no.acl.found lets it "
            "in "
            "too)",
            line("acl", "delete", "--cluster", "--principal", "ANONYMOUS"),
        )
    lax = sorted(node for node in guarded if "allow.everyone.if.no.acl.found" in brokers[node])
    if lax:
        yield Finding(
            Severity.NOTE,
            f"allow.everyone.if.no.acl.found is set on broker {named(lax)}, which does not tell the value: "
            "if it is "
            "true, whatever has no ACLs is open to all",
            texts(lax),
            "take it out of server.properties, and allow what users need",
            line("acl", "create", "--principal", "NAME", "--topic", "NAME", "--operation", "read"),
        )


def _everyone(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [
        one
        for one in snapshot.acls.get()
        if one.principal == EVERYONE and one.host == "*" and one.operation in CHANGING
    ]
    if found:
        first = found[0]
        option = f"--{first.resource}"
        place = [option] if first.resource == "cluster" else [option, first.name]
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'ACL')} that let every user change something: "
            f"{named(f'{one.operation} on {one.resource} {one.name}' for one in found)}",
            texts(f"{one.operation} {one.resource} {one.name}" for one in found),
            "allow it to the users that need it, then delete the rule",
            line(
                *("acl", "delete", *place, "--principal", EVERYONE),
                *("--operation", first.operation, "--permission", "allow"),
            ),
        )


def _tokens(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    left_ms = limits.token_hours * DAY_MS / 24
    found = [one for one in snapshot.tokens.get() if one.ends_ms - snapshot.taken_ms < left_ms]
    final = [one for one in found if one.ends_ms >= one.latest_end_ms]
    if found:
        hours = min(one.ends_ms - snapshot.taken_ms for one in found) / 1_000
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'delegation token')} {'ends' if len(found) == 1 else 'end'} soon, the "
            "first in "
            f"{duration_text(max(0.0, hours))}: {named(f'{one.token_id} of {one.owner}' for one in found)}",
            texts(one.token_id for one in found),
            "it can't be renewed: make a new one" if final else "renew it; its HMAC is read from stdin",
            line("token", "create") if final else line("token", "renew", "-"),
        )


def _quotas(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Quotas are missed where several users share several brokers: where there are logins."""
    if len(snapshot.cluster.get().brokers) < 2 or not any(
        one.protocol.startswith("SASL") for one in snapshot.listeners.get()
    ):
        return
    bounded = [one for one in snapshot.quotas.get() if any(name is None for name in one.entity.values())]
    if not bounded:
        yield Finding(
            Severity.NOTE,
            "no default quota: one client may take the whole cluster",
            ("default user",),
            "set a default that no sane client meets, and more for those that need it",
            line(
                *("quota", "alter", "--default-user"),
                *("producer_byte_rate=52428800", "consumer_byte_rate=104857600"),
            ),
        )


CHECKS: Final = (
    Check(
        "certificates",
        Severity.CRITICAL,
        "listeners whose certificate has ended or ends soon",
        ("listeners",),
        _certificates,
    ),
    Check(
        "anonymous-super-user",
        Severity.CRITICAL,
        "clients without a login that may change the cluster, in spite of an authorizer",
        ("broker_settings", "listeners"),
        _anonymous,
    ),
    Check(
        "listeners-in-the-clear",
        Severity.WARNING,
        "listeners without TLS beyond loopback",
        ("listeners",),
        _clear,
    ),
    Check(
        "no-authorizer",
        Severity.WARNING,
        "logins without an authorizer",
        ("broker_settings",),
        _authorizer,
    ),
    Check(
        "acls-for-everyone", Severity.WARNING, "ACLs that let every user change things", ("acls",), _everyone
    ),
    Check("tokens-ending", Severity.WARNING, "delegation tokens that end soon", ("tokens",), _tokens),
    Check(
        "no-quotas",
        Severity.NOTE,
        "no default quota in a cluster of several brokers with logins",
        ("cluster", "listeners", "quotas"),
        _quotas,
    ),
)
