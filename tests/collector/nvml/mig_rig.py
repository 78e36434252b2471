"""A card in MIG mode of the fake driver, and an instance on it that a source has measured."""

from collector.nvml.source import NvmlSource
from domain.series import GPU_SM_ACTIVE
from tests.collector.patience import now_s, wait_until
from tests.fakes.nvml.driver import FakeDriver

H100 = "NVIDIA H100 80GB HBM3"


def mig_card(driver: FakeDriver, index: int = 0) -> str:
    """An H100 in MIG mode, with no instances yet."""
    return driver.card(index, H100, mig_mode=1, full_card_sms=132)


def wait_until_measured(source: NvmlSource, card: str) -> None:
    """Wait until a window of the performance metrics of the card's first instance has gone by."""
    wait_until(lambda: source.read(card, now_s())[1].values.get(GPU_SM_ACTIVE) is not None)
