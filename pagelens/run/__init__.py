"""Runs programs with remedies that need no root: it preloads a library and tells it what to do."""

from pagelens.run.command import Request, run_program
from pagelens.run.preload import Pages, Preload

__all__ = ["Pages", "Preload", "Request", "run_program"]
