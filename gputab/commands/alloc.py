"""`gputab alloc`: ask the allocator for capacity, see it, give it back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from pydantic import ValidationError

from allocator.bodies import AllocationBody, AllocationOrder
from allocator.client import AllocatorClient
from allocator.request import Holding
from domain.errors import CapacityError, InputError
from domain.grants import GrantKind
from domain.period import format_instant
from domain.units import format_gib, milli_gpu
from gputab import composition
from gputab.output import Format, OutputFormat, print_rows, say
from gputab.whole_numbers import whole_option

app = typer.Typer(help="Take, see and give back capacity.", no_args_is_help=True)

_COLUMNS = {
    "allocation": "allocation",
    "tenant": "tenant",
    "project": "project",
    "kind": "kind",
    "sku": "SKU",
    "milli_gpu": "milli-GPU",
    "vram_gib": "GiB",
    "node": "node",
    "gpu_uuid": "card",
    "mig_uuid": "MIG instance",
    "start": "from",
    "end": "to",
}

_CARD_COLUMNS = {
    "node": "node",
    "device_index": "index",
    "gpu_uuid": "card",
    "sku": "SKU",
    "state": "state",
    "state_reason": "because",
    "free_milli": "free milli-GPU",
    "free_gib": "free GiB",
    "grants": "grants",
    "free_profiles": "free MIG instances",
}

Project = Annotated[str, typer.Option(help="the tenant's project that it is for")]
Tenant = Annotated[str | None, typer.Option(help="for whom; default: the token's own tenant")]
Labels = Annotated[list[str] | None, typer.Option("--label", help="NAME=VALUE; may be repeated")]


@app.command()
def request(
    project: Project,
    tenant: Tenant = None,
    gpus: Annotated[int | None, whole_option("this many whole cards of one node")] = None,
    milli: Annotated[int | None, whole_option("thousandths of one card", most=999)] = None,
    vram_mib: Annotated[int | None, whole_option("with --milli; default: the same proportion")] = None,
    mig: Annotated[str | None, typer.Option(help="a MIG instance of this profile, such as 1g.10gb")] = None,
    model: Annotated[str | None, typer.Option(help="only cards of this model, as the driver names it")] = None,
    sku: Annotated[str | None, typer.Option(help="only cards sold as this SKU")] = None,
    label: Labels = None,
    idempotency_key: Annotated[str | None, typer.Option(help="repeat a request without taking more")] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Take capacity, from now until it is released."""
    if sum(wish is not None for wish in (gpus, milli, mig)) != 1:
        raise InputError("cannot tell what to ask for: give one of --gpus, --milli and --mig")
    if vram_mib is not None and milli is None:
        raise InputError(f"cannot ask for --vram-mib {vram_mib!r} alone: give --milli with it")
    try:
        order = AllocationOrder(
            tenant=tenant,
            project=project,
            kind=GrantKind.WHOLE if gpus is not None else GrantKind.SHARE if milli is not None else GrantKind.MIG,
            count=gpus or 1,
            milli_gpu=milli,
            vram_mib=vram_mib,
            mig_profile=mig,
            model=model,
            sku=sku,
            labels=_labels(label or []),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"cannot ask for {first['loc'][0]} {first['input']!r}: {first['msg']}; see `gputab alloc request --help`"
        ) from error
    with _client() as client:
        try:
            found = client.create(order, idempotency_key=idempotency_key)
        except CapacityError as error:
            for node, reason in error.reasons.items():
                say(f"{node}: {reason}")
            raise
    _print([found], output)


@app.command()
def release(allocation: str, output: Format = OutputFormat.TABLE) -> None:
    """Give an allocation back; giving it back again changes nothing."""
    with _client() as client:
        _print([client.release(allocation)], output)


@app.command()
def show(allocation: str, output: Format = OutputFormat.TABLE) -> None:
    """One allocation with its grants."""
    with _client() as client:
        _print([client.show(allocation)], output)


@app.command("list")
def list_allocations(
    state: Annotated[Holding, typer.Option(help="which")] = Holding.OPEN,
    limit: Annotated[int, whole_option("at most this many allocations", most=500)] = 100,
    cursor: Annotated[str | None, typer.Option(help="go on where the page before ended")] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Allocations, newest first."""
    with _client() as client:
        page = client.list(state, limit=limit, cursor=cursor)
    _print(page.allocations, output, next_cursor=page.next_cursor)
    if page.next_cursor is not None:
        say(f"there are more: --cursor {page.next_cursor}")


@app.command()
def cards(output: Format = OutputFormat.TABLE) -> None:
    """Every card with what is free of it now; for operators."""
    with _client() as client:
        found = client.cards()
    if output is OutputFormat.JSON:
        print_rows([each.model_dump(mode="json") for each in found], {}, output)
        return
    rows = [
        {
            "node": each.node,
            "device_index": each.device_index,
            "gpu_uuid": each.gpu_uuid,
            "sku": each.sku,
            "state": f"{each.state}, node silent" if each.is_silent else each.state.value,
            "state_reason": each.state_reason,
            "free_milli": milli_gpu(each.compute_units_free, each.compute_units),
            "free_gib": format_gib(each.vram_free_bytes),
            "grants": each.grants,
            "free_profiles": ", ".join(each.free_profiles),
        }
        for each in found
    ]
    print_rows(rows, _CARD_COLUMNS, output)


@app.command()
def adopt(mig_uuid: str) -> None:
    """Let a MIG instance that somebody else made be granted."""
    with _client() as client:
        client.adopt(mig_uuid)
    say(f"adopted {mig_uuid!r}")


@contextmanager
def _client() -> Iterator[AllocatorClient]:
    config = composition.settings()
    token = composition.token(config)
    with composition.http_client(config.allocator_url) as client:
        yield AllocatorClient(config.allocator_url, token, client)


def _labels(texts: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"cannot read the label {text!r}: write NAME=VALUE")
        labels[name] = value
    return labels


def _print(found: list[AllocationBody], output: OutputFormat, *, next_cursor: str | None = None) -> None:
    """One row a grant for people, the service's own answer for programs."""
    if output is OutputFormat.JSON:
        print_rows([each.model_dump(mode="json") for each in found], {}, output, extra={"next_cursor": next_cursor})
        return
    rows = [
        {
            "allocation": each.allocation,
            "tenant": each.tenant,
            "project": each.project,
            "kind": grant.kind.value,
            "sku": grant.sku,
            "milli_gpu": grant.milli_gpu,
            "vram_gib": format_gib(grant.vram_bytes),
            "node": grant.node,
            "gpu_uuid": grant.gpu_uuid,
            "mig_uuid": grant.mig_uuid,
            "start": format_instant(grant.start_us),
            "end": None if grant.end_us is None else format_instant(grant.end_us),
        }
        for each in found
        for grant in each.grants
    ]
    print_rows(rows, _COLUMNS, output)
