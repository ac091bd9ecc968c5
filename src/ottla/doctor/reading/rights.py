"""Reads rights and bounds: delegation tokens, quotas, ACLs."""

from __future__ import annotations

from ottla.client.admin.acls import AclFilter, Permission, list_acls
from ottla.client.admin.client_quotas import describe_quotas
from ottla.client.tokens import describe_tokens
from ottla.doctor.reading.drafts import Draft
from ottla.doctor.reading.look import Look
from ottla.doctor.snapshot import AclView, QuotaView, TokenView


async def read_tokens(look: Look, draft: Draft) -> tuple[TokenView, ...]:
    """The delegation tokens that the user may see."""
    return tuple(
        TokenView(one.token_id, one.owner, one.expires_ms, one.max_ms)
        for one in await describe_tokens(look.lane("rights"))
    )


async def read_quotas(look: Look, draft: Draft) -> tuple[QuotaView, ...]:
    """All quotas."""
    return tuple(
        QuotaView({kind.value: name for kind, name in one.entity.items()}, dict(one.values))
        for one in await describe_quotas(look.lane("rights"), {})
    )


async def read_acls(look: Look, draft: Draft) -> tuple[AclView, ...]:
    """The ACLs that allow an operation."""
    found = await list_acls(look.lane("rights"), AclFilter(permission=Permission.ALLOW))
    return tuple(
        AclView(one.principal, one.host, one.operation.word, one.resource_type.word, one.resource_name)
        for one in found
    )
