"""The Fleet dashboard: the whole fleet on one page, and which cards, tenants and nodes to look at."""

from dashboards import card_panels, grant_panels, service_panels
from dashboards.board import Dashboard, DataSourceVariable, LabelVariable
from dashboards.panels import Row
from domain.series import GPU_INFO, GRANT_INFO

UID = "gputab-fleet"


def fleet() -> Dashboard:
    """The dashboard; numbers of panels are never given twice, since pages to on-call may point at them."""
    return Dashboard(
        UID,
        "gputab fleet",
        "Cards, grants and money of the fleet, second by second. What is not drawn is not known, and is never 0.",
        [
            DataSourceVariable(),
            LabelVariable("node", "Node", GPU_INFO),
            LabelVariable("tenant", "Tenant (grants and money)", GRANT_INFO),
        ],
        [
            Row(100, "Now", y=0),
            card_panels.reporting(1, (0, 1, 5, 4)),
            card_panels.lost(2, (5, 1, 3, 4)),
            card_panels.silent(3, (8, 1, 3, 4)),
            card_panels.mean_activity(4, (11, 1, 3, 4)),
            card_panels.vram_used(5, (14, 1, 3, 4)),
            grant_panels.granted_share(6, (17, 1, 3, 4)),
            grant_panels.spend_rate(7, (20, 1, 4, 4)),
            Row(101, "Cards", y=5),
            card_panels.activity(10, (0, 6, 24, 13)),
            card_panels.watermarks(11, (0, 19, 13, 11)),
            card_panels.fullest_cards(12, (13, 19, 11, 11), UID),
            card_panels.states(13, (0, 30, 24, 12)),
            Row(102, "Grants and money", y=42),
            grant_panels.compute(20, (0, 43, 12, 9)),
            grant_panels.vram(21, (12, 43, 12, 9)),
            grant_panels.spending(22, (0, 52, 12, 9)),
            service_panels.accounts(30, (12, 52, 12, 9)),
            Row(103, "Meter and collectors", y=61),
            service_panels.meter_lag(31, (0, 62, 12, 9)),
            service_panels.delivery(32, (12, 62, 12, 9)),
            service_panels.collectors(33, (0, 71, 24, 9)),
        ],
    )
