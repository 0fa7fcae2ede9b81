"""The mechanisms that time is attributed to, and how each is spoken of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mechanism:
    """Words and colour of one mechanism."""

    name: str  # in `AttributionRecord.parts`
    term: str  # as a summand of the time
    loss: str  # as a part of the loss, in a sentence
    without: str | None  # the counterfactual without it; None: not shown among the what-ifs
    colour: str  # Okabe, Ito: Color Universal Design, 2008


CONFLICTS, CAPACITY, WRITE_BACKS = "conflicts", "capacity", "write-backs"

MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(CAPACITY, "capacity of the memory-side cache", "its capacity", None, "#56B4E9"),
        Mechanism(
            CONFLICTS,
            "conflicts in it",
            "conflicts in the memory-side cache",
            "a fully associative cache (no conflicts)",
            "#D55E00",
        ),
        Mechanism(
            WRITE_BACKS,
            "write-backs of dirty lines",
            "write-backs of dirty lines",
            "no write-backs",
            "#E69F00",
        ),
    )
}
