"""Models fleets: the checks of imaginary nodes, and what a policy costs a site in a year."""

from pagelens.site.fleet_model.simulation import Inputs, Simulated, simulate_site
from pagelens.site.fleet_model.synthetic import Fleet, synthetic_checks

__all__ = ["Fleet", "Inputs", "Simulated", "simulate_site", "synthetic_checks"]
