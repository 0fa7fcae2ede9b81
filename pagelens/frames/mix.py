"""Job mixes: what the nodes of a site run between reboots. Files in mixes/ state each value's origin."""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pagelens import _core
from pagelens.address.units import FRAME_BYTES
from pagelens.errors import UsageError
from pagelens.spelling import nearest
from pagelens.values.quantities import Bytes, Positive, PositiveFloat, Sourced

Share = Annotated[float, Field(ge=0, le=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Jobs(_Table):
    mean_since_boot: Sourced[Annotated[float, Field(ge=0)]]
    smallest: Sourced[Bytes]
    largest: Sourced[Bytes]
    processes: Sourced[Positive]
    longest_turn: Sourced[Positive]
    huge_share: Sourced[Share]
    kept_free_share: Sourced[Share]


class _PageCache(_Table):
    interval: Sourced[PositiveFloat]
    share: Sourced[Share]


class _Stragglers(_Table):
    fewest: Sourced[PositiveFloat]
    largest_share: Sourced[Share]
    pinned_share: Sourced[Share]


class _MixFile(_Table):
    version: Literal[1] = Field(alias="schema")
    title: str
    jobs: _Jobs
    page_cache: _PageCache
    stragglers: _Stragglers


@dataclass(frozen=True)
class JobMix:
    """The jobs that nodes run and what they leave behind. All values are assumptions about a site.

    A mix of your own is this record: `Age(mix=JobMix(...))` is a step of a history.
    """

    mean_jobs_since_boot: float  # geometric: a node may be fresh
    smallest_job_bytes: float  # a job's size is uniform in the logarithm between these
    largest_job_bytes: float
    processes: int  # the processes of a job
    longest_turn_pages: int  # first-touched by one process before another's turn
    cache_interval_pages: float  # mean pages touched between two that enter the page cache
    cache_share: float  # the share of memory that the page cache holds after a job
    huge_share: float  # the share of a job's touches that take a 2 MiB page
    kept_free_share: float  # the share of memory that jobs leave free
    fewest_stragglers: float  # page-cache pages that survive dropping the caches on a node that ran jobs:
    largest_straggler_share: float  # log-uniform from that many to this share of memory
    pinned_share: float  # the share of stragglers that cannot be moved

    def to_core(self, page_bytes: int = FRAME_BYTES) -> _core.JobMix:
        """Return what the core needs to age a node, in frames of that size.

        Where pages are larger than 4 KiB, no job has transparent large ones: they are of 32 MiB or more.
        """
        return _core.JobMix(
            smallest_job_frames=self.smallest_job_bytes / page_bytes,
            largest_job_frames=self.largest_job_bytes / page_bytes,
            processes=self.processes,
            longest_turn=self.longest_turn_pages,
            cache_interval=self.cache_interval_pages,
            cache_share=self.cache_share,
            huge_share=self.huge_share if page_bytes == FRAME_BYTES else 0.0,
            kept_free_share=self.kept_free_share,
        )

    def scaled(self, factor: float) -> "JobMix":
        """Return the same jobs for a node with `factor` times the memory."""
        return replace(
            self,
            smallest_job_bytes=self.smallest_job_bytes * factor,
            largest_job_bytes=self.largest_job_bytes * factor,
        )


def mix_names() -> list[str]:
    """Return the names of all mixes."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in (files(__package__) / "mixes").iterdir()
        if entry.name.endswith(".toml")
    )


@cache
def load_mix(name: str) -> JobMix:
    """Return the mix of that name. Raises UsageError for an unknown one."""
    if name not in mix_names():
        raise UsageError(f"mix: '{name}' is unknown; did you mean {nearest(name, mix_names())}?")
    text = (files(__package__) / "mixes" / f"{name}.toml").read_text()
    try:
        mix = _MixFile.model_validate(tomllib.loads(text))
    except (ValidationError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"mix {name}: {error}") from None
    jobs, stragglers = mix.jobs, mix.stragglers
    return JobMix(
        mean_jobs_since_boot=jobs.mean_since_boot.value,
        smallest_job_bytes=jobs.smallest.value,
        largest_job_bytes=jobs.largest.value,
        processes=jobs.processes.value,
        longest_turn_pages=jobs.longest_turn.value,
        cache_interval_pages=mix.page_cache.interval.value,
        cache_share=mix.page_cache.share.value,
        huge_share=jobs.huge_share.value,
        kept_free_share=jobs.kept_free_share.value,
        fewest_stragglers=stragglers.fewest.value,
        largest_straggler_share=stragglers.largest_share.value,
        pinned_share=stragglers.pinned_share.value,
    )
