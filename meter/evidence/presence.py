"""What is known of a device in each second: sampled, lost, or why there is no sample."""

from collections.abc import Iterable
from enum import IntEnum

import polars as pl

from domain.clock import MICROSECONDS
from domain.inventory import CONTACT_SECONDS
from domain.period import Period
from domain.series import GPU_UP

_DEVICE = ("gpu_uuid", "mig_uuid")


class Presence(IntEnum):
    """What is known of a device (or, for a node, of its collector) in one second."""

    SAMPLED = 0
    LOST = 1
    """The card was said to be lost: `gpu_up` 0."""
    ABSENT = 2
    """Other cards of the node were sampled in that second and this one was not."""
    COLLECTOR_DOWN = 3
    """Nothing of the node was sampled, but it was heard from."""
    HOST_UNREACHABLE = 4
    """Neither a sample nor a heartbeat."""


def lost_seconds(samples: pl.DataFrame, every_device: pl.DataFrame) -> pl.DataFrame:
    """The seconds in which a device was said to be lost; a card takes its instances with it."""
    said = samples.filter((pl.col("series") == GPU_UP.name) & (pl.col("value") == 0)).select(*_DEVICE, "second_s")
    cards = said.filter(pl.col("mig_uuid") == "").drop("mig_uuid")
    return pl.concat([said, every_device.join(cards, on="gpu_uuid")]).unique()


def node_presence(from_s: int, to_s: int, samples: pl.DataFrame, contacts: Iterable[Period]) -> pl.DataFrame:
    """One row per second of [from_s, to_s): what is known of the node itself."""
    seconds = pl.DataFrame({"second_s": pl.int_range(from_s, to_s, eager=True)})
    heard = samples.select("second_s").unique()
    return (
        seconds.join(heard.with_columns(heard=True), on="second_s", how="left")
        .join(_contact_seconds(heard, contacts, from_s, to_s).with_columns(contact=True), on="second_s", how="left")
        .select(
            "second_s",
            pl.when("heard")
            .then(Presence.SAMPLED)
            .when("contact")
            .then(Presence.COLLECTOR_DOWN)
            .otherwise(Presence.HOST_UNREACHABLE)
            .cast(pl.Int64)
            .alias("node_value"),
        )
    )


def device_presence(
    node: pl.DataFrame, every_device: pl.DataFrame, valid: pl.DataFrame, lost: pl.DataFrame
) -> pl.DataFrame:
    """One row per device and second, and per second for the node itself (gpu_uuid '')."""
    device = (
        every_device.join(node, how="cross")
        .join(
            valid.select(*_DEVICE, "second_s").unique().with_columns(valid=True), on=[*_DEVICE, "second_s"], how="left"
        )
        .join(lost.with_columns(lost=True), on=[*_DEVICE, "second_s"], how="left")
        .with_columns(
            pl.when("lost")
            .then(Presence.LOST)
            .when("valid")
            .then(Presence.SAMPLED)
            .when(pl.col("node_value") == Presence.SAMPLED)
            .then(Presence.ABSENT)
            .otherwise("node_value")
            .cast(pl.Int64)
            .alias("value")
        )
    )
    of_node = node.select(pl.lit("").alias("gpu_uuid"), pl.lit("").alias("mig_uuid"), "second_s", value="node_value")
    return pl.concat([device.select(of_node.columns), of_node]).select(
        *_DEVICE, pl.lit("").alias("owner"), pl.lit("presence").alias("quantity"), "second_s", "value"
    )


def _contact_seconds(heard: pl.DataFrame, contacts: Iterable[Period], from_s: int, to_s: int) -> pl.DataFrame:
    """The seconds within `CONTACT_SECONDS` after some sample or heartbeat."""
    after_sample = heard.select(
        pl.int_ranges(pl.col("second_s"), pl.col("second_s") + CONTACT_SECONDS).alias("second_s")
    ).explode("second_s", empty_as_null=False)
    ranges = [
        pl.int_range(max(from_s, first), min(to_s, last + CONTACT_SECONDS), eager=True)
        for first, last in ((each.start_us // MICROSECONDS, each.end_us // MICROSECONDS) for each in contacts)
        if max(from_s, first) < min(to_s, last + CONTACT_SECONDS)
    ]
    after_heartbeat = pl.DataFrame({"second_s": pl.concat(ranges) if ranges else pl.Series(dtype=pl.Int64)})
    return pl.concat([after_sample, after_heartbeat]).unique()
