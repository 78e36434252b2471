"""The processes that make up the demo, in the order they start."""

import sys
from collections.abc import Mapping

from alerts import alertmanager
from alerts.card_rules import render_card_rules
from alerts.routes import render_routes
from alerts.watermark_rules import render_rules
from gputab.demo.on_call import PATIENCE
from gputab.demo.stage import Stage
from gputab.supervisor import Program
from victoriametrics import launcher, vmalert

# Whoever watches a demo waits for a page with a clock in hand.
_RESEND_DELAY_S = 15


def programs(stage: Stage, collect: Mapping[str, list[str]], webhook: str) -> list[Program]:
    """Store, service, alerting, collectors, meter and explorer.

    `collect` gives each node's own arguments, `webhook` is where pages go.
    """
    common = {
        "GPUTAB_DATABASE_URL": stage.settings.database_url,
        "GPUTAB_VICTORIAMETRICS_URL": stage.settings.victoriametrics_url,
        "GPUTAB_ALLOCATOR_URL": stage.settings.allocator_url,
        "GPUTAB_DATA_DIR": str(stage.folder),
        "GPUTAB_EVIDENCE_DIR": str(stage.settings.evidence_path),
    }
    gputab = [sys.executable, "-m", "gputab"]
    servers = stage.servers
    store_command = launcher.command(
        binary=servers.victoriametrics.binary,
        port=servers.victoriametrics.port,
        data_dir=stage.folder / "victoriametrics",
    )
    return [
        Program("victoriametrics", store_command, 10),
        *_alerting(stage, webhook),
        Program("allocator", [*gputab, "allocator", "--port", str(servers.allocator.port)], 20, common),
        *(
            Program(
                f"collector-{node}",
                [*gputab, "collect", "--node", node, *arguments],
                30,
                # A node has its own queue, and no way to the database.
                {
                    **{key: value for key, value in common.items() if key != "GPUTAB_DATABASE_URL"},
                    "GPUTAB_DATA_DIR": str(stage.folder / "nodes" / node),
                    "GPUTAB_TOKEN": stage.node_tokens[node],
                    # Each would want the same port, as the only collector of its machine.
                    "GPUTAB_METRICS_PORT": "0",
                },
            )
            for node, arguments in collect.items()
        ),
        Program("meter", [*gputab, "meter", "run", "--follow"], 40, common),
        Program("explorer", [*gputab, "explorer", "--port", str(servers.explorer.port)], 50, common),
    ]


def _alerting(stage: Stage, webhook: str) -> list[Program]:
    """The shipped rules and routes; those of VRAM with less patience, or nobody would see a page."""
    folder = stage.folder / "alerts"
    folder.mkdir()
    rules = [folder / "vram-watermarks.yaml", folder / "card-health.yaml"]
    routes = folder / "alertmanager.yaml"
    rules[0].write_text(render_rules(PATIENCE), "utf-8")
    rules[1].write_text(render_card_rules(), "utf-8")
    routes.write_text(render_routes(webhook), "utf-8")
    servers = stage.servers
    pager_command = alertmanager.command(
        binary=servers.alertmanager.binary,
        port=servers.alertmanager.port,
        config=routes,
        data_dir=folder / "alertmanager",
    )
    rules_command = vmalert.command(
        binary=servers.vmalert.binary,
        port=servers.vmalert.port,
        rules=rules,
        victoriametrics=stage.settings.victoriametrics_url,
        alertmanager_url=stage.settings.alertmanager_url,
        secrets_dir=folder,
        evaluation_interval_s=PATIENCE.evaluation_s,
        resend_delay_s=_RESEND_DELAY_S,
    )
    return [Program("alertmanager", pager_command, 12), Program("vmalert", rules_command, 14)]
