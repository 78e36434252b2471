"""`gputab doctor`: what this node can measure, why not the rest, and what is to be mended."""

import json
import logging
import sys
from contextlib import closing
from typing import Annotated

import structlog
import typer

from collector.call_times import CallTimes
from collector.nvml.driver import DriverGoneError
from collector.process import queue_path
from collector.quiesce import QuiesceDesk
from domain.clock import Clock
from domain.errors import UnavailableError
from domain.slugs import check_name
from domain.units import MIB
from gputab import composition
from gputab.doctor.collector_page import collector_findings
from gputab.doctor.devices import examine
from gputab.doctor.driver import driver_findings, machine_findings
from gputab.doctor.findings import DeviceReport, Diagnosis, Finding, Verdict, failure
from gputab.doctor.report import as_json, print_report
from gputab.doctor.services import allocator_findings, clock_findings, dcgm_findings, store_findings
from gputab.node_cards import open_cards, open_node_state
from gputab.output import Format, OutputFormat
from settings.gputab import Settings

_LET_GO = Finding(
    "cards", Verdict.NOTE, "let go of, so nothing is asked of the driver", "take them up by `gputab quiesce --resume`"
)


def doctor(
    node: Annotated[str | None, typer.Option(help="which node this is; default: the setting 'node'")] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """What each card can measure, and what is to be mended.

    Of a series that a card cannot tell it says why. Takes some seconds, changes nothing, and may run beside the
    collector. The exit code is 0 where every card is measured and nothing is to be mended, else 1.
    """
    # What the parts of the collector would log is among the findings.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    config = composition.settings()
    diagnosis = _diagnose(config, check_name("node", config.node if node is None else node))
    if output is OutputFormat.JSON:
        json.dump(as_json(diagnosis), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        print_report(diagnosis)
    if not diagnosis.is_well:
        raise typer.Exit(1)


def _diagnose(config: Settings, node: str) -> Diagnosis:
    clock = composition.clock()
    token = config.token.get_secret_value() if config.token is not None else None
    devices, about_cards = _examine(config, node, clock)
    with composition.http_client(config.allocator_url) as client:
        queue = queue_path(config.data_dir, node)
        findings = (
            *about_cards,
            *machine_findings(),
            *collector_findings(node, config.metrics_port, client, queue, config.queue_max_mib * MIB, clock),
            *store_findings(composition.sample_store(config), clock),
            *allocator_findings(config.allocator_url, token, client, clock),
            *clock_findings(),
            *dcgm_findings(client, config.dcgm_bindings),
        )
    return Diagnosis(node, findings, tuple(devices))


def _examine(config: Settings, node: str, clock: Clock) -> tuple[list[DeviceReport], list[Finding]]:
    """What each card can measure, and what there is to say of the driver and the cards."""
    if QuiesceDesk(config.data_dir, node).is_wanted():
        # Somebody changes them now, and whatever has the driver open would be in the way.
        return [], [_LET_GO]
    findings = list(driver_findings(clock, open_node_state(config.data_dir, node)))
    try:
        with closing(open_cards(config, clock, CallTimes(clock))) as cards:
            devices, about_cards = examine(cards, clock)
            return devices, [*findings, *about_cards]
    except DriverGoneError:
        return [], findings  # what is wrong with the driver is among them
    except UnavailableError as error:
        return [], [*findings, failure("cards", error)]
