"""Cards by way of a real HTTP server that answers as dcgm-exporter does, or as it does when it is sick."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from collector.dcgm.exporter import DcgmExporterSource
from collector.ranges import refuse_garbage
from domain.errors import UnavailableError
from domain.samples import UNATTRIBUTED, OwnerUse
from domain.series import (
    GPU_BUSY,
    GPU_ENERGY,
    GPU_GR_ACTIVE,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_TEMPERATURE,
    GPU_UP,
)
from domain.units import MIB
from machine.process import free_port
from tests.collector.dcgm_pages import FIELDS, Exporter, page
from tests.collector.sample_logs import START_S
from tests.fakes.clock import SettableClock

ENERGY, USED, RESERVED = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"
GR = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def test_a_card_says_what_the_page_says_and_none_of_what_it_does_not(dcgm_source: DcgmExporterSource) -> None:
    dcgm_source.inventory()

    (reading,) = dcgm_source.read("GPU-2", START_S)

    assert (reading.gpu_uuid, reading.mig_uuid) == ("GPU-2", None)
    told = {series: value for series, value in reading.values.items() if value is not None}
    assert told[GPU_UP] == 1
    assert told[GPU_BUSY] == 0.91
    assert told[GPU_GR_ACTIVE] == 0.156205
    assert told[GPU_MEMORY_USED] == 5_120 * MIB
    assert told[GPU_MEMORY_RESERVED] == 447 * MIB
    assert told[GPU_POWER] == 298.125
    assert told[GPU_ENERGY] == 15_152_422.938
    assert reading.values[GPU_SM_ACTIVE] is None, "it is off by default"
    assert reading.owners == {UNATTRIBUTED: OwnerUse(5_120 * MIB, None)}
    assert refuse_garbage(reading).refused == ()


def test_one_scrape_serves_every_card_of_a_second(dcgm_source: DcgmExporterSource, exporter: Exporter) -> None:
    uuids = [f"GPU-{number}" for number in range(8)]
    exporter.says(page(*uuids))
    dcgm_source.inventory()
    exporter.requests.clear()

    for second_s in (START_S, START_S + 1):
        with ThreadPoolExecutor(len(uuids)) as pool:
            readings = list(pool.map(lambda uuid, second_s=second_s: dcgm_source.read(uuid, second_s), uuids))
        assert [reading.gpu_uuid for (reading,) in readings] == uuids

    assert exporter.requests == ["/metrics", "/metrics"]
    assert exporter.connections == 1, "it is kept alive"


def test_each_second_has_the_values_of_its_own_scrape(dcgm_source: DcgmExporterSource, exporter: Exporter) -> None:
    dcgm_source.inventory()
    for second, used in enumerate((1, 2, 3)):
        exporter.says(page("GPU-1", **{USED: used, ENERGY: 1_000 + second}))
        assert dcgm_source.read("GPU-1", START_S + second)[0].values[GPU_MEMORY_USED] == used * MIB

    exporter.says(page("GPU-1", **{USED: 4, ENERGY: 1_003}))
    (reading,) = dcgm_source.read("GPU-1", START_S)
    assert reading.values[GPU_MEMORY_USED] == 4 * MIB, "a clock that was set back does not stop it"


def test_an_address_may_name_the_page_and_a_password_that_is_not_shown(
    exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    with closing(DcgmExporterSource(f"{exporter.url.replace('//', '//me:secret@')}/gpus", dcgm_clock)) as source:
        assert len(source.inventory()) == 2
        assert exporter.requests == ["/gpus"]
        exporter.status = 500
        with pytest.raises(UnavailableError) as refused:
            source.inventory()
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (500, b"Failed to get metrics: GPU is lost", "it answers 500"),
        (302, b"", "it answers 302"),
        (200, b"", "it tells of no card"),
        (200, b"<!DOCTYPE html><html><body>Welcome", "begins '<!DOCTYPE html><html><body>Welcome'"),
        (200, bytes(range(256)) * 64, "it tells of no card"),
        (200, b"# HELP go_goroutines Number.\ngo_goroutines 9\n", "it tells of no card"),
        (200, b"x" * (17 * MIB), f"it answers with more than {16 * MIB} bytes"),
    ],
)
def test_what_means_nothing_makes_every_card_mute_and_none_lost(
    dcgm_source: DcgmExporterSource, exporter: Exporter, status: int, body: bytes, words: str
) -> None:
    """An empty page is what it serves while cards are set up, and 500 what one sick card makes of all."""
    dcgm_source.inventory()
    exporter.status, exporter.body = status, body

    for second_s, uuid in ((START_S, "GPU-1"), (START_S, "GPU-2"), (START_S + 1, "GPU-1")):
        with pytest.raises(UnavailableError) as refused:
            dcgm_source.read(uuid, second_s)
        assert words in str(refused.value)
        assert str(refused.value).endswith("; start dcgm-exporter there, or see its log")
    with pytest.raises(UnavailableError):
        dcgm_source.inventory()
    exporter.status = 200
    exporter.says(page("GPU-1", "GPU-2"))
    assert dcgm_source.read("GPU-1", START_S + 2)[0].values[GPU_UP] == 1


def test_one_that_hangs_is_given_up_and_the_next_second_is_read(
    dcgm_source: DcgmExporterSource, exporter: Exporter
) -> None:
    dcgm_source.inventory()
    exporter.go_on.clear()

    with pytest.raises(UnavailableError, match="timed out"):
        dcgm_source.read("GPU-1", START_S)

    exporter.go_on.set()
    assert dcgm_source.read("GPU-1", START_S + 1)[0].values[GPU_UP] == 1


def test_one_that_answers_drop_by_drop_is_given_up(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dcgm_clock: SettableClock
) -> None:
    """Each drop comes in time; all of them do not."""
    dcgm_source.inventory()
    exporter.before_the_end = lambda: dcgm_clock.advance_us(3_000_000)

    with pytest.raises(UnavailableError, match="its answer is not complete after 2 s"):
        dcgm_source.read("GPU-1", START_S)


def test_one_that_is_away_says_where_it_was_looked_for(dcgm_clock: SettableClock) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with (
        closing(DcgmExporterSource(url, dcgm_clock)) as source,
        pytest.raises(UnavailableError, match=f"from '{url}/metrics': .*; start dcgm-exporter there"),
    ):
        source.inventory()


def test_words_where_a_number_belongs_are_garbage_that_the_collector_counts(
    dcgm_source: DcgmExporterSource, exporter: Exporter
) -> None:
    words = "ERROR - FAILED TO CONVERT TO STRING"
    exporter.says(page("GPU-1", DCGM_FI_DEV_GPU_TEMP=words, DCGM_FI_DEV_FB_USED=words, DCGM_FI_DEV_FB_TOTAL=15_360))
    dcgm_source.inventory()

    with capture_logs() as logs:
        dcgm_source.read("GPU-1", START_S)
        (reading,) = dcgm_source.read("GPU-1", START_S + 1)

    checked = refuse_garbage(reading)
    assert set(checked.refused) == {GPU_TEMPERATURE, GPU_MEMORY_USED}
    assert checked.reading.values[GPU_POWER] == 298.125
    assert reading.owners == {}
    assert logs == [], "the inventory has said how many lines there were"


def test_418_a_value_that_no_card_can_have_is_refused_and_not_clamped(
    dcgm_source: DcgmExporterSource, exporter: Exporter
) -> None:
    """dcgm-exporter 418, DCGM 199 and 152."""
    exporter.says(page("GPU-1", DCGM_FI_DEV_GPU_UTIL=4_294_967_295, DCGM_FI_PROF_SM_ACTIVE=1.294))
    dcgm_source.inventory()

    assert set(refuse_garbage(dcgm_source.read("GPU-1", START_S)[0]).refused) == {GPU_BUSY, GPU_SM_ACTIVE}


def test_a_card_of_which_all_is_blank_is_mute(dcgm_source: DcgmExporterSource, exporter: Exporter) -> None:
    dcgm_source.inventory()
    exporter.says(page("GPU-1", "GPU-2", **dict.fromkeys(FIELDS, 2**63 - 14)))

    with pytest.raises(UnavailableError, match="all that is told of it is blank"):
        dcgm_source.read("GPU-1", START_S)


def test_a_read_that_waits_for_another_ends_with_it(dcgm_source: DcgmExporterSource, exporter: Exporter) -> None:
    """The threads of all cards wait for one answer, and have its failure in common."""
    dcgm_source.inventory()
    exporter.go_on.clear()
    failures: list[Exception] = []

    def read(uuid: str) -> None:
        try:
            dcgm_source.read(uuid, START_S)
        except UnavailableError as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(uuid,)) for uuid in ("GPU-1", "GPU-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(failures) == 2
