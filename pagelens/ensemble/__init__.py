"""Simulates ensembles of nodes and policies, in parallel and deterministically, and keeps them as Parquet."""

from pagelens.ensemble.ensemble import check_applicable, check_fits, ensemble_key, run_ensemble
from pagelens.ensemble.growing import ROUNDS
from pagelens.ensemble.result import Ensemble, Tables
from pagelens.ensemble.scale import Scaled, scale_to

__all__ = [
    "ROUNDS",
    "Ensemble",
    "Scaled",
    "Tables",
    "check_applicable",
    "check_fits",
    "ensemble_key",
    "run_ensemble",
    "scale_to",
]
