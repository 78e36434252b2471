"""What each granted second is worth when it was not sampled: measured, bridged, on record, or free."""

from enum import StrEnum

import polars as pl

from domain.prices import GapPolicy, GapRules
from meter.evidence.presence import Presence


class GapClass(StrEnum):
    """The class of one granted second; all but FREE are billed."""

    MEASURED = "measured"
    BRIDGED = "bridged"
    ON_RECORD = "on_record"
    FREE = "free"


def classify(presence: pl.DataFrame, rules: GapRules) -> pl.DataFrame:
    """Runs of presence (`Evidence.presence`) with a gap class each: columns gpu_uuid, mig_uuid, start_s, end_s, gap.

    A hole is every second between two samples; one of up to `bridge_seconds` is bridged. A second in which the
    card was said to be lost is no hole, and neither is what runs off the end of what is known.
    """
    device = ["gpu_uuid", "mig_uuid"]
    is_sampled = pl.col("value") == Presence.SAMPLED
    ordered = presence.sort([*device, "start_s"]).with_columns(
        is_sampled.rle_id().over(device).alias("stretch"), is_sampled.alias("is_sampled")
    )
    stretches = ordered.group_by([*device, "stretch"]).agg(
        pl.col("seconds").sum().alias("stretch_seconds"),
        (pl.col("value") == Presence.LOST).any().alias("is_lost"),
        pl.col("is_sampled").first().alias("stretch_sampled"),
    )
    between = (pl.col("stretch") > 0) & (pl.col("stretch") < pl.col("stretch").max().over(device))
    stretches = stretches.with_columns(
        (
            ~pl.col("stretch_sampled")
            & ~pl.col("is_lost")
            & between
            & (pl.col("stretch_seconds") <= rules.bridge_seconds)
        ).alias("is_bridged")
    )
    by_presence = {
        Presence.SAMPLED: GapClass.MEASURED,
        Presence.LOST: GapClass.FREE,
        Presence.ABSENT: GapClass.FREE,
        Presence.COLLECTOR_DOWN: _by_policy(rules.collector_down),
        Presence.HOST_UNREACHABLE: _by_policy(rules.host_unreachable),
    }
    return ordered.join(stretches, on=[*device, "stretch"]).select(
        *device,
        "start_s",
        (pl.col("start_s") + pl.col("seconds")).alias("end_s"),
        pl.when("is_bridged")
        .then(pl.lit(GapClass.BRIDGED.value))
        .otherwise(
            pl.col("value").replace_strict(
                {int(key): value.value for key, value in by_presence.items()}, return_dtype=pl.String
            )
        )
        .alias("gap"),
    )


def _by_policy(policy: GapPolicy) -> GapClass:
    return GapClass.FREE if policy is GapPolicy.FREE else GapClass.ON_RECORD
