"""What is told of cards beside plain numbers: processes, finer samples, GPM, links, virtual cards, accounting."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.fakes.nvml.places import Places, Value, write
from tests.fakes.nvml.state import NONE, PROCESSES

LISTS = ("compute", "graphics", "mps")
_LINK_TO_GPU, _LINK_TO_SWITCH = 0, 2


class Measurements(Places):
    """The part of the fake driver that is measured."""

    def process(self, uuid: str, pid: int, used_bytes: int, kind: str = "compute", **fields: int) -> None:
        """Let a process run on a card or MIG device, on the list of that kind.

        Further fields are those of `Process` in `state.py`.
        """
        slot, row = self.place(uuid)
        card = self.world.cards[slot]
        gi_id, ci_id = (NONE, NONE) if row == NONE else (card.instances[row].gi_id, card.instances[row].ci_id)
        with self.state.writing():
            free = next(place for place in range(PROCESSES) if not card.processes[place].exists)
            process = card.processes[free]
            for name, _ in process._fields_:
                setattr(process, name, 0)
            process.list, process.pid, process.used_bytes = LISTS.index(kind), pid, used_bytes
            process.gi_id, process.ci_id, process.exists = gi_id, ci_id, 1
            write(process, fields)
            card.process_count = max(card.process_count, free + 1)

    def end_process(self, uuid: str, pid: int) -> None:
        """Let a process of a card end, on every list."""
        card = self.card_of(uuid)
        with self.state.writing():
            for place in range(card.process_count):
                if card.processes[place].pid == pid:
                    card.processes[place].exists = 0

    def end_processes(self, uuid: str) -> None:
        """Let every process of a card end."""
        card = self.card_of(uuid)
        with self.state.writing():
            for place in range(card.process_count):
                card.processes[place].exists = 0
            card.process_count = 0

    def uses(self, uuid: str, uses: Iterable[Mapping[str, int]]) -> None:
        """What the driver tells of processes' utilisation from now on: members of `Use`, such as pid, at_us and sm."""
        card = self.card_of(uuid)
        with self.state.writing():
            card.use_count = _replace(card.uses, ({**use, "exists": 1} for use in uses))

    def samples(self, uuid: str, kind: int, samples: Iterable[tuple[int, int]]) -> None:
        """The buffer of one kind from now on: (epoch microsecond, value) by rising time."""
        buffer = self.card_of(uuid).samples[kind]
        with self.state.writing():
            buffer.count = _replace(buffer.rows, ({"at_us": at_us, "value": value} for at_us, value in samples))

    def gpm(self, uuid: str, permille: Mapping[int, int]) -> None:
        """Let ratios of GPM, by metric id 1..13, be so many thousandths from now on, of a card or of a GPU instance.

        The others stay as they are. 1294 is a ratio of 1.294, as real ones have been.
        """
        now_us = self.now_us()
        with self.state.writing():
            for metric, rate in permille.items():
                counter = self.at(uuid).gpm[metric]
                counter.base += max(0, now_us - counter.since_us) * counter.rate
                counter.since_us, counter.rate = now_us, rate

    def link(self, uuid: str, number: int, remote: str | None = None, **fields: Value) -> None:
        """Set a link of a card to another card, or to a switch where None, as long as it is active.

        Further fields are those of `Link` in `state.py`.
        """
        card = self.card_of(uuid)
        remote_bus_id = "00000000:C1:00.0" if remote is None else self.card_of(remote).bus_id.decode()
        with self.state.writing():
            link = card.links[number]
            if not link.exists:
                link.exists = link.active = 1
                link.version, link.speed_mbps = 6, 26_562
            link.remote_bus_id = remote_bus_id.encode()
            link.remote_type = _LINK_TO_SWITCH if remote is None else _LINK_TO_GPU
            write(link, fields)

    def relation(self, first: str, second: str, level: int, p2p_status: int = 0) -> None:
        """How two cards are joined: a level of the topology (10 one switch .. 50 across sockets) and peer access."""
        one, other = self.place(first)[0], self.place(second)[0]
        with self.state.writing() as world:
            for here, there in ((one, other), (other, one)):
                world.cards[here].topology[there] = level
                world.cards[here].p2p[there] = p2p_status

    def vgpus(self, uuid: str, vgpus: Iterable[Mapping[str, Value]]) -> None:
        """The virtual cards on a card from now on: members of `Vgpu`, such as id, vm_id, at_us and sm."""
        card = self.card_of(uuid)
        with self.state.writing():
            card.vgpu_count = _replace(card.vgpus, vgpus)

    def vgpu_processes(self, uuid: str, processes: Iterable[Mapping[str, Value]]) -> None:
        """What processes on virtual cards did: members of `VgpuProcess`."""
        card = self.card_of(uuid)
        with self.state.writing():
            card.vgpu_process_count = _replace(card.vgpu_processes, processes)

    def accounts(self, uuid: str, accounts: Iterable[Mapping[str, int]]) -> None:
        """What the driver has on account, with accounting on: members of `Account`."""
        card = self.card_of(uuid)
        with self.state.writing():
            card.accounting_mode = 1
            card.account_count = _replace(card.accounts, accounts)


def _replace(rows: Any, values: Iterable[Mapping[str, Value]]) -> int:
    count = 0
    for count, value in enumerate(values, start=1):
        row = rows[count - 1]
        for name, _ in row._fields_:
            setattr(row, name, type(getattr(row, name))())
        write(row, value)
    return count
