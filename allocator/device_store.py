"""The health of cards, and whose MIG instances are whose."""

import json
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from allocator.interval_store import end_open, replace_open
from allocator.stock import Card
from allocator.stock_store import load_cards
from domain.capacity import DeviceState
from domain.errors import ConflictError, InputError, NotFoundError
from store.access import Principal, Role, record
from store.database import now_us
from store.tables.capacity import device_periods, device_states, events, mig_periods

# The reason of the state that a card is in while a complete inventory of its node lacks it.
ABSENT = "absent from the inventory"
_REASON_CHARACTERS_MAX = 200
# A node suspects a card; an operator decides.
_OPERATOR_STATES = (DeviceState.OK, DeviceState.DRAINING, DeviceState.FAILED)


def list_cards(connection: Connection, principal: Principal) -> list[Card]:
    """Every card with what is free of it now; for operators."""
    principal.require(Role.OPERATOR)
    return load_cards(connection, now_us(connection))


def set_state(connection: Connection, principal: Principal, gpu_uuid: str, state: DeviceState, reason: str) -> None:
    """Say from now on that a card is ok, draining or failed; grants on it go on.

    Raises NotFoundError for an unknown card, ConflictError for calling a card ok that is not there.
    """
    principal.require(Role.OPERATOR)
    if state not in _OPERATOR_STATES:
        raise InputError(f"cannot put a card into the state {state!r} by hand: use {', '.join(_OPERATOR_STATES)}")
    if not reason.isprintable() or not 0 < len(reason) <= _REASON_CHARACTERS_MAX:
        raise InputError(f"cannot keep the reason {reason[:40]!r}: write 1 to {_REASON_CHARACTERS_MAX} characters")
    card = select(device_periods).where(device_periods.c.gpu_uuid == gpu_uuid, device_periods.c.end_us.is_(None))
    row = connection.execute(card.with_for_update()).one_or_none()
    if row is None:
        raise NotFoundError(f"cannot find the card {gpu_uuid!r}: see the devices the service lists")
    at_us = now_us(connection)
    current = open_state(connection, gpu_uuid)
    if state is DeviceState.OK and current is not None and current.reason == ABSENT:
        raise ConflictError(
            f"cannot call {gpu_uuid!r} ok: {row.node!r} reports without it; it is ok once it is reported again"
        )
    if current is not None and (current.state, current.reason) == (state, reason):
        return
    enter_state(connection, gpu_uuid, state, reason, at_us)
    add_event(connection, row.node, gpu_uuid, "state", {"state": state, "reason": reason}, at_us)
    record(connection, principal, "set device state", f"{gpu_uuid} {state}", at_us)


def adopt_instance(connection: Connection, principal: Principal, mig_uuid: str) -> None:
    """Let a MIG instance that somebody else made be granted, from now on; adopting it again changes nothing."""
    principal.require(Role.OPERATOR)
    query = select(mig_periods).where(mig_periods.c.mig_uuid == mig_uuid, mig_periods.c.end_us.is_(None))
    row = connection.execute(query.with_for_update()).one_or_none()
    if row is None:
        raise NotFoundError(f"cannot find the MIG instance {mig_uuid!r}: it is on no card now")
    if row.origin != "foreign":
        return
    at_us = now_us(connection)
    replace_open(connection, mig_periods, row, {"origin": "adopted"}, at_us)
    record(connection, principal, "adopt MIG instance", mig_uuid, at_us)


def open_state(connection: Connection, gpu_uuid: str) -> Row[Any] | None:
    """The state the card is in; None where nobody has said anything, which is ok."""
    query = select(device_states).where(device_states.c.gpu_uuid == gpu_uuid, device_states.c.end_us.is_(None))
    return connection.execute(query).one_or_none()


def enter_state(connection: Connection, gpu_uuid: str, state: DeviceState, reason: str, at_us: int) -> None:
    """End the state the card is in, and begin this one."""
    current = open_state(connection, gpu_uuid)
    if current is not None:
        at_us = end_open(connection, device_states, current, at_us)
    connection.execute(insert(device_states).values(gpu_uuid=gpu_uuid, state=state, reason=reason, start_us=at_us))


def leave_absence(connection: Connection, gpu_uuid: str, at_us: int) -> bool:
    """End the state of a card that was absent; False where it was not.

    What an operator had said before counts again: a card that was draining is still draining.
    """
    current = open_state(connection, gpu_uuid)
    if current is None or current.reason != ABSENT:
        return False
    before = connection.execute(
        select(device_states)
        .where(device_states.c.gpu_uuid == gpu_uuid, device_states.c.end_us == current.start_us)
        .order_by(device_states.c.device_state_id.desc())
        .limit(1)
    ).one_or_none()
    if before is None:
        end_open(connection, device_states, current, at_us)
    else:
        enter_state(connection, gpu_uuid, DeviceState(before.state), before.reason, at_us)
    return True


def add_event(
    connection: Connection, node: str, gpu_uuid: str, kind: str, detail: dict[str, object], at_us: int
) -> None:
    """Write down what happened to a card."""
    connection.execute(
        insert(events).values(
            at_us=at_us, node=node, gpu_uuid=gpu_uuid, kind=kind, detail=json.dumps(detail, sort_keys=True)
        )
    )
