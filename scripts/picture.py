"""Writes the README's picture: the distribution of run times in an explanation that `explain` wrote."""

import sys
from pathlib import Path

from pagelens.explain.figures import draw_all
from pagelens.explain.model import Explanation

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Entry point; its argument is the path of an explanation.json."""
    explanation = Explanation.model_validate_json(Path(sys.argv[1]).read_text())
    (ROOT / "docs" / "picture.svg").write_text(draw_all(explanation)["distribution"].svg)
    print("picture: wrote docs/picture.svg")


if __name__ == "__main__":
    main()
