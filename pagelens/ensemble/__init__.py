"""Ensembles: nodes x policies, in parallel, deterministic, kept as Parquet."""
