"""Which owners' use is a grant's: from the names that are proved on a card to who had the right to be there."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from domain.grants import Grant
from domain.period import ceil_second
from domain.samples import allocation_owner

# Kinds of owners that others than gputab name; a source that is called by one names its allocations by it.
_KINDS = ("pod", "slurm", "unit")


def owners_of(grant: Grant) -> tuple[str, ...]:
    """Every `owner` label whose use is the grant's: its allocation's own, and that of its source's name for it.

    A `source_id` with its kind (`pod:UID`, `slurm:JOB`, `unit:NAME.service`) is the label itself, whoever says it. A
    plain one is of the kind that its source is called by, `pod`, `slurm` or `unit`; what the names of any other source
    mean is not known. No source can name the `alloc:` label of another allocation.
    """
    own = allocation_owner(grant.allocation)
    if grant.source_id is None:
        return (own,)
    kind, colon, _ = grant.source_id.partition(":")
    if colon and kind in _KINDS:
        return (own, grant.source_id)
    return (own, f"{grant.source}:{grant.source_id}") if grant.source in _KINDS else (own,)


class OwnerPart(NamedTuple):
    """What a grant has over the whole seconds [from_s, to_s) of a value: from `before` up to `upto` of `whole`.

    In bytes: value * upto // whole - value * before // whole. So the parts of all who share it sum to the value.
    """

    grant: Grant
    from_s: int
    to_s: int
    before: int
    upto: int
    whole: int


def divide_owner(grants: Sequence[Grant]) -> Iterator[OwnerPart]:
    """The parts that grants on one device, which name one owner, have of what that owner uses there.

    Each has what is used in its own seconds, so a name that comes back brings nothing along. Where several hold the
    device in the same second nobody can prove whose use it is: it is divided in proportion to their VRAM. So they have
    together what the owner used, and no overuse where together they have room for it. A grant of no bytes counts as
    one byte. The order of `grants` decides who has the bytes that do not divide.
    """
    seconds = [(each.period.first_second, ceil_second(each.period.end_us)) for each in grants]
    for from_s, to_s in pairwise(sorted({edge for edges in seconds for edge in edges})):
        held = [each for each, (first_s, end_s) in zip(grants, seconds, strict=True) if first_s <= from_s < end_s]
        ends = list(accumulate(max(1, each.vram_bytes) for each in held))
        for grant, before, upto in zip(held, [0, *ends], ends, strict=False):
            yield OwnerPart(grant, from_s, to_s, before, upto, ends[-1])
