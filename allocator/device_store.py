"""The health of cards and whose MIG instances are whose, as rows that hold over intervals, end to start."""

import json
from typing import Any

from sqlalchemy import Column, Connection, Row, Table, insert, select, update

from allocator.node_store import reachable_nodes
from allocator.stock_store import serialize_capacity
from domain.capacity import DeviceState
from domain.errors import ConflictError, InputError, NotFoundError
from store.access import Principal, Role, record
from store.database import now_us
from store.tables.capacity import device_periods, device_states, events, mig_periods

# The reason of the state that a card is in while a complete inventory of its node lacks it. The service alone gives
# it, so a state that has it is the service's own.
ABSENT = "absent from the inventory"
_REASON_CHARACTERS_MAX = 200
# A node suspects a card; an operator decides.
_OPERATOR_STATES = (DeviceState.OK, DeviceState.DRAINING, DeviceState.FAILED)


def set_state(connection: Connection, principal: Principal, gpu_uuid: str, state: DeviceState, reason: str) -> None:
    """Say from now on that a card is ok, draining or failed; grants on it go on.

    Raises NotFoundError for an unknown card, ConflictError for calling a card ok that is not there.
    """
    principal.require(Role.OPERATOR)
    if state not in _OPERATOR_STATES:
        raise InputError(f"cannot put a card into the state {state!r} by hand: use {', '.join(_OPERATOR_STATES)}")
    if not reason.isprintable() or not 0 < len(reason) <= _REASON_CHARACTERS_MAX:
        raise InputError(f"cannot keep the reason {reason[:40]!r}: write 1 to {_REASON_CHARACTERS_MAX} characters")
    if reason == ABSENT:
        raise InputError(f"cannot keep the reason {reason!r}: only the node's own report says so; write another")
    serialize_capacity(connection)
    card = select(device_periods).where(device_periods.c.gpu_uuid == gpu_uuid, device_periods.c.end_us.is_(None))
    row = connection.execute(card).one_or_none()
    if row is None:
        raise NotFoundError(f"cannot find the card {gpu_uuid!r}: see `gputab alloc cards`")
    at_us = now_us(connection)
    current = _open_state(connection, gpu_uuid)
    if state is DeviceState.OK and _is_absent(current):
        raise ConflictError(
            f"cannot call {gpu_uuid!r} ok: {row.node!r} reports without it; it is ok once it is reported again"
        )
    if current is not None and (current.state, current.reason) == (state, reason):
        return
    _enter_state(connection, gpu_uuid, state, reason, at_us)
    _add_event(connection, row.node, gpu_uuid, "state", {"state": state, "reason": reason}, at_us)
    record(connection, principal, "set device state", f"{gpu_uuid} {state}", at_us)


def adopt_instance(connection: Connection, principal: Principal, mig_uuid: str) -> None:
    """Let a MIG instance that somebody else made be granted, from now on; adopting it again changes nothing."""
    principal.require(Role.OPERATOR)
    serialize_capacity(connection)
    query = select(mig_periods).where(mig_periods.c.mig_uuid == mig_uuid, mig_periods.c.end_us.is_(None))
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFoundError(
            f"cannot find the MIG instance {mig_uuid!r}: it is on no card now; see `nvidia-smi -L` on its node"
        )
    if row.origin != "foreign":
        return
    at_us = now_us(connection)
    replace_open(connection, mig_periods, row, {"origin": "adopted"}, at_us)
    record(connection, principal, "adopt MIG instance", mig_uuid, at_us)


def miss_card(connection: Connection, principal: Principal, gpu_uuid: str, at_us: int) -> None:
    """Call a card failed that its node reports without; grants on it go on. For the node."""
    principal.require(Role.NODE)
    if not _is_absent(_open_state(connection, gpu_uuid)):
        _enter_state(connection, gpu_uuid, DeviceState.FAILED, ABSENT, at_us)
        _add_event(connection, str(principal.node), gpu_uuid, "absent", {}, at_us)


def return_card(connection: Connection, principal: Principal, gpu_uuid: str, at_us: int) -> None:
    """End the absence of a card that its node reports; without one, nothing changes. For the node.

    What an operator had said before counts again: a card that was draining is still draining.
    """
    principal.require(Role.NODE)
    current = _open_state(connection, gpu_uuid)
    if current is None or not _is_absent(current):
        return
    before = connection.execute(
        select(device_states)
        .where(device_states.c.gpu_uuid == gpu_uuid, device_states.c.end_us == current.start_us)
        .order_by(device_states.c.device_state_id.desc())
        .limit(1)
    ).one_or_none()
    if before is None:
        end_open(connection, device_states, current, at_us)
    else:
        _enter_state(connection, gpu_uuid, DeviceState(before.state), before.reason, at_us)
    _add_event(connection, str(principal.node), gpu_uuid, "returned", {}, at_us)


def is_given_up(connection: Connection, principal: Principal, gpu_uuid: str, node: str) -> bool:
    """Whether the card may leave the node: that one reports without it, or is not heard from. For nodes."""
    principal.require(Role.NODE)
    if _is_absent(_open_state(connection, gpu_uuid)):
        return True
    return node not in reachable_nodes(connection, principal, now_us(connection))


def replace_open(connection: Connection, table: Table, row: Row[Any], values: dict[str, Any], at_us: int) -> None:
    """End an open row at `at_us` and begin one with the changed values there.

    A report from a node's queue may speak of an instant before the row began. Then nothing was ever as the row
    says, and the row itself is changed.
    """
    if at_us <= row.start_us:
        changed = {**values, "changed_us": now_us(connection)}
        connection.execute(update(table).where(_key(table) == row[0]).values(**changed))
        return
    end_open(connection, table, row, at_us)
    following = {**dict(zip(table.columns.keys(), row, strict=True)), **values, "changed_us": now_us(connection)}
    following |= {"start_us": at_us, "end_us": None}
    del following[_key(table).name]
    connection.execute(insert(table).values(**following))


def end_open(connection: Connection, table: Table, row: Row[Any], at_us: int) -> int:
    """End an open row at `at_us`, at the earliest where it began; the instant it ended at."""
    end_us = max(at_us, int(row.start_us))
    connection.execute(update(table).where(_key(table) == row[0]).values(end_us=end_us, changed_us=now_us(connection)))
    return end_us


def _open_state(connection: Connection, gpu_uuid: str) -> Row[Any] | None:
    """The state the card is in; None where nobody has said anything, which is ok."""
    query = select(device_states).where(device_states.c.gpu_uuid == gpu_uuid, device_states.c.end_us.is_(None))
    return connection.execute(query).one_or_none()


def _is_absent(state: Row[Any] | None) -> bool:
    return state is not None and state.reason == ABSENT


def _enter_state(connection: Connection, gpu_uuid: str, state: DeviceState, reason: str, at_us: int) -> None:
    """End the state the card is in, and begin this one."""
    current = _open_state(connection, gpu_uuid)
    if current is not None:
        at_us = end_open(connection, device_states, current, at_us)
    begun = {"gpu_uuid": gpu_uuid, "state": state, "reason": reason, "start_us": at_us}
    connection.execute(insert(device_states).values(**begun, changed_us=now_us(connection)))


def _add_event(
    connection: Connection, node: str, gpu_uuid: str, kind: str, detail: dict[str, object], at_us: int
) -> None:
    """Write down what happened to a card."""
    connection.execute(
        insert(events).values(
            at_us=at_us, node=node, gpu_uuid=gpu_uuid, kind=kind, detail=json.dumps(detail, sort_keys=True)
        )
    )


def _key(table: Table) -> Column[Any]:
    """The column that numbers the rows, the first of every table of intervals."""
    return next(iter(table.primary_key.columns))
