"""`gputab tenant` and `gputab token`: who there is and what each may do."""

from typing import Annotated

import typer

from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.period import format_instant, parse_instant
from domain.slugs import check_name
from gputab import composition, ledger
from gputab.output import Format, OutputFormat, print_rows, say
from gputab.whole_numbers import whole_option
from store import access
from store import tenants as store_tenants
from store.access import Principal, Role
from store.database import now_us

_DAY_US = 86_400 * MICROSECONDS

tenant_app = typer.Typer(help="Tenants, their projects and price books.", no_args_is_help=True)
token_app = typer.Typer(help="Bearer tokens for people, nodes and programs.", no_args_is_help=True)

Currency = Annotated[str, typer.Option(help="ISO 4217 code; for ever")]
Zone = Annotated[str, typer.Option(help="IANA zone whose midnights divide billing days; for ever")]


@tenant_app.command("create")
def create_tenant(
    tenant: str,
    currency: Currency,
    zone: Zone = "UTC",
    project: Annotated[list[str] | None, typer.Option(help="also create this project; may be repeated")] = None,
) -> None:
    """Add a tenant, with the projects named."""
    principal = Principal.local_operator()
    with ledger.open_database(composition.settings()) as database, database.write() as connection:
        now = now_us(connection)
        store_tenants.create_tenant(connection, principal, tenant=tenant, zone=zone, currency=currency, now_us=now)
        for name in project or []:
            store_tenants.create_project(connection, principal, tenant=tenant, project=name, now_us=now)
    say(f"created the tenant {tenant!r}")


@tenant_app.command("project")
def create_project(tenant: str, project: str) -> None:
    """Add a project to a tenant; one that is there stays as it is."""
    principal = Principal.local_operator()
    with ledger.open_database(composition.settings()) as database, database.write() as connection:
        store_tenants.load_tenant(connection, principal, tenant)
        store_tenants.create_project(connection, principal, tenant=tenant, project=project, now_us=now_us(connection))
    say(f"{tenant!r} has the project {project!r}")


@tenant_app.command("assign")
def assign_book(
    tenant: str,
    book: str,
    start: Annotated[str | None, typer.Option("--from", help="from when on; default: now")] = None,
) -> None:
    """Rate a tenant by a price book from an instant on."""
    with ledger.open_database(composition.settings()) as database, database.write() as connection:
        now = now_us(connection)
        start_us = parse_instant(start) if start else now
        store_tenants.assign_book(
            connection, Principal.local_operator(), tenant=tenant, book=book, start_us=start_us, now_us=now
        )
    say(f"{tenant!r} is rated by {book!r} from {format_instant(start_us)} on")


@tenant_app.command("list")
def list_tenants(output: Format = OutputFormat.TABLE) -> None:
    """Every tenant with its zone, currency and present book."""
    with ledger.open_database(composition.settings()) as database, database.read() as connection:
        found = store_tenants.load_tenants(connection, Principal.local_operator())
    rows = [
        {
            "tenant": each.tenant,
            "zone": each.zone.key,
            "currency": each.currency,
            "book": each.books[-1][1] if each.books else None,
        }
        for each in found
    ]
    print_rows(rows, {"tenant": "tenant", "zone": "billing zone", "currency": "currency", "book": "book"}, output)


@token_app.command("create")
def create_token(
    role: Role,
    tenant: Annotated[str | None, typer.Option(help="for the role tenant: whose")] = None,
    node: Annotated[str | None, typer.Option(help="for the role node: which")] = None,
    days: Annotated[int, whole_option("how long it is good for")] = 365,
) -> None:
    """Make a token and print its secret, once."""
    if (role is Role.TENANT) != (tenant is not None):
        raise InputError("cannot make the token: --tenant goes with the role tenant, and with no other")
    if (role is Role.NODE) != (node is not None):
        raise InputError("cannot make the token: --node goes with the role node, and with no other")
    if node is not None:
        check_name("node", node)
    principal = Principal.local_operator()
    with ledger.open_database(composition.settings()) as database, database.write() as connection:
        now = now_us(connection)
        if tenant is not None:
            store_tenants.load_tenant(connection, principal, tenant)
        made = access.create_token(
            connection, principal, role=role, now_us=now, expires_us=now + days * _DAY_US, tenant=tenant, node=node
        )
    say(f"made {made.token_id}, good for {days} days; its secret is shown this once:")
    typer.echo(made.secret)


@token_app.command("revoke")
def revoke_token(token_id: str) -> None:
    """End a token now."""
    with ledger.open_database(composition.settings()) as database, database.write() as connection:
        access.revoke_token(connection, Principal.local_operator(), token_id, now_us=now_us(connection))
    say(f"revoked {token_id}")


@token_app.command("list")
def list_tokens(output: Format = OutputFormat.TABLE) -> None:
    """Every token, without its secret."""
    with ledger.open_database(composition.settings()) as database, database.read() as connection:
        found = access.list_tokens(connection, Principal.local_operator())
    rows = [
        {
            "token_id": row.token_id,
            "role": row.role,
            "for": row.tenant or row.node,
            "expires": format_instant(row.expires_us),
            "revoked": format_instant(row.revoked_us) if row.revoked_us is not None else None,
        }
        for row in found
    ]
    headings = {"token_id": "token", "role": "role", "for": "for", "expires": "expires", "revoked": "revoked"}
    print_rows(rows, headings, output)
