"""Cards of which DCGM tells too little for an inventory: each is said once, and again where the reason is another."""

import structlog

from domain.errors import UnavailableError

log = structlog.get_logger()


class LeftOut:
    """The cards that were left out so far, each with its latest reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def note(self, gpu_uuid: str, reason: str) -> None:
        """That this card is left out."""
        if self._reasons.get(gpu_uuid) != reason:
            self._reasons[gpu_uuid] = reason
            log.error("card_left_out", gpu_uuid=gpu_uuid, reason=reason, left_out=len(self._reasons))

    def raise_first(self) -> None:
        """Raise UnavailableError with the reason of the first, if there is one."""
        for reason in self._reasons.values():
            raise UnavailableError(reason)
