"""What each owner uses of a device; owners always sum to the device, the rest being `unattributed`."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from domain.samples import UNATTRIBUTED


class Claim(NamedTuple):
    """What the driver lists of one process on one device; `used_bytes` is None where it does not say."""

    pid: int
    used_bytes: int | None
    ci_id: int | None = None


def split_memory(used_bytes: int, claims: Iterable[Claim], owners: Mapping[int, str]) -> dict[str, int]:
    """Bytes of a device by owner, `unattributed` always among them; they sum to `used_bytes`.

    A process whose bytes the driver does not say adds nothing to its owner, whose bytes are then at least those told.
    `owners` are those proved, `unattributed` of what is proved to be nobody's. Where processes claim more than is used
    the sum is more, too, and no reading that can be believed.
    """
    told = [(claim.pid, claim.used_bytes) for claim in claims if claim.used_bytes is not None]
    by_owner: Counter[str] = Counter()
    for pid, claimed in told:
        by_owner[owners.get(pid, UNATTRIBUTED)] += claimed
    by_owner[UNATTRIBUTED] += max(0, used_bytes - sum(claimed for _, claimed in told))
    return dict(by_owner)


def split_compute(ratio: float, percents: Mapping[int, int], owners: Mapping[int, str]) -> dict[str, float]:
    """A device's busy ratio by owner, `unattributed` always among them; they sum to `ratio` but for rounding.

    `percents` are what the driver says that each process used of it lately, 0 to 100. Processes that take turns may
    add up to more than the device was busy: then each has its part of `ratio`, s_i = percent_i / sum. Where they add
    up to less, the rest is nobody's.
    """
    by_owner: Counter[str] = Counter({UNATTRIBUTED: 0})
    for pid, percent in percents.items():
        by_owner[owners.get(pid, UNATTRIBUTED)] += percent
    total = by_owner.total()
    if total / 100 > ratio:
        return _parts(ratio, by_owner)
    shares = {owner: percent / 100 for owner, percent in by_owner.items() if owner != UNATTRIBUTED}
    return {UNATTRIBUTED: max(0.0, ratio - sum(shares.values())), **shares}


def sole_owner(claims: Iterable[Claim], owners: Mapping[int, str]) -> str | None:
    """Whose all processes on a device are: `unattributed` where there is none, None where they are several's.

    A process that is proved to be nobody's (`owners`) does not count.
    """
    everyone = {owners.get(claim.pid, UNATTRIBUTED) for claim in _users(claims, owners)}
    if len(everyone) > 1:
        return None
    return everyone.pop() if everyone else UNATTRIBUTED


def split_by_sms(
    ratio: float, claims: Iterable[Claim], owners: Mapping[int, str], sms: Mapping[int, int]
) -> dict[str, float] | None:
    """The ratio of a GPU instance by owner: each compute instance with a process on it has its part of the SMs.

    `sms` are the SMs of each compute instance. What several owners share of one is nobody's; None where that is all,
    or where SMs of one are not known: then nothing can be told. A process that is proved to be nobody's does not count.
    """
    by_instance: dict[int | None, list[Claim]] = {}
    for claim in _users(claims, owners):
        by_instance.setdefault(claim.ci_id, []).append(claim)
    users = {ci_id: sole_owner(its_claims, owners) for ci_id, its_claims in by_instance.items()}
    weights = {ci_id: sms.get(ci_id, 0) if ci_id is not None else 0 for ci_id in users}
    if not any(users.values()) or not all(weights.values()):
        return None
    sms_by_owner: Counter[str] = Counter({UNATTRIBUTED: 0})
    for ci_id, user in users.items():
        sms_by_owner[user or UNATTRIBUTED] += weights[ci_id]
    return _parts(ratio, sms_by_owner)


def _users(claims: Iterable[Claim], owners: Mapping[int, str]) -> Iterable[Claim]:
    """Those that may compute: not the server of MPS, whose clients the driver lists apart and by their own PIDs.

    It does so from Volta on, and `owners` have no server of MPS where it lists none. Of a card before Volta it lists
    the server alone, and samples what that does (Maxwell on, which are all that a driver of 510 has), so that nobody
    comes to ask here.
    """
    return (claim for claim in claims if owners.get(claim.pid) != UNATTRIBUTED)


def _parts(ratio: float, weights: Counter[str]) -> dict[str, float]:
    """`ratio` split by whole weights; a part of it is never more than it, as sums of rounded parts can be."""
    total = weights.total()
    return {owner: ratio * (weight / total) for owner, weight in weights.items()}
