"""What Alertmanager's webhook sends (version 4 of its payload), checked."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from domain.errors import InputError

# A card's group has a handful of alerts of some 3 kB; those of a rule without cards, however many, are one group.
BODY_LIMIT_BYTES = 2**24
ALERT_NAME_LABEL = "alertname"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Name = Annotated[str, StringConstraints(max_length=1_000)]


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of a notification. `is_firing` is false where Alertmanager calls it resolved, for whatever reason.

    `started_us` is when it began to fire; of one that fires again after it ended, the latest time.
    """

    is_firing: bool
    started_us: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name of its rule; '' where it has none."""
        return self.labels.get(ALERT_NAME_LABEL, "")


class _Alert(BaseModel):
    model_config = ConfigDict(extra="ignore")

    status: Literal["firing", "resolved"]
    labels: dict[_Name, str]
    annotations: dict[_Name, str] = {}
    started: AwareDatetime = Field(alias="startsAt")


class _Notification(BaseModel):
    model_config = ConfigDict(extra="ignore")

    version: Literal["4"]
    alerts: Annotated[list[_Alert], Field(min_length=1)]


def read_notification(body: bytes) -> list[Alert]:
    """The alerts of a webhook's body, which are all that its group has; InputError where it is no such body."""
    try:
        parsed = _Notification.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise InputError(
            f"cannot read the notification: {place}: {first['msg']}; send what Alertmanager's webhook sends (version 4)"
        ) from error
    return [
        Alert(
            alert.status == "firing",
            (alert.started - _EPOCH) // timedelta(microseconds=1),
            alert.labels,
            alert.annotations,
        )
        for alert in parsed.alerts
    ]
