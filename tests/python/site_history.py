"""A site's history for tests of actions: figures are added node by node, and judged as collection does."""

import time
from pathlib import Path

from pagelens.site.check import Check
from pagelens.site.collect import collect
from pagelens.site.config import SiteConfig, read_config
from pagelens.site.decision import State, rule_of
from pagelens.site.history import Action, actions_of, open_history
from pagelens.site.standing import standings

GOOD, BAD = 3.5e11, 2.0e11  # bytes a second


class SiteHistory:
    """A configuration with its history, and ten nodes that are as they should be."""

    def __init__(self, folder: Path, sections: str = "[act]\ndry_run = false\nmost_share = 0.25\n") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "site.toml"
        text = f'[node]\nroot = "{folder}/root"\nstate = "{folder}/state"\n'
        self.path.write_text(f'{text}[history]\ndatabase = "{folder}/history.sqlite"\n{sections}')
        self._count = 0
        steady = [GOOD * (1 + 0.002 * (at - 2)) for at in range(5)]
        self._collect([check for node in range(10) for check in self._checks(f"peer{node}", steady, 0)])

    @property
    def config(self) -> SiteConfig:
        return read_config(self.path)

    def add(self, node: str, figures: list[float], boot: int = 0) -> None:
        """Checks after as many jobs, one after the other, the last one just now."""
        self._collect(self._checks(node, figures, boot))

    def _checks(self, node: str, figures: list[float], boot: int) -> list[Check]:
        checks = []
        now = time.time()
        for at, figure in enumerate(figures):
            self._count += 1
            before = now - 60 * (len(figures) - at)
            checks.append(
                Check(
                    version=1, id=f"{self._count:032x}", node=node, boot=f"{boot:x}", hardware="KNL",
                    mode="cache", time=before, uptime=1000.0 + self._count, job=str(self._count),
                    kernels={"triad": figure},
                )
            )  # fmt: skip
        return checks

    def _collect(self, checks: list[Check]) -> None:
        with open_history(self.config.history.database, write=True) as history:
            collect(history, checks, rule_of(self.config.decision), time.time())

    def state(self, node: str) -> State:
        with open_history(self.config.history.database) as history:
            found = standings(history, rule_of(self.config.decision))
        return next(one.state for one in found if one.node == node)

    def actions(self, node: str | None = None) -> list[Action]:
        with open_history(self.config.history.database) as history:
            return actions_of(history, node)
