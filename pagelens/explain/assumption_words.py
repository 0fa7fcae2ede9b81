"""Says which assumed values of the machine could change the conclusion."""

from collections.abc import Sequence

from pagelens.explain.model import Assumption, RemedyGain


def assumed_in_words(assumptions: Sequence[Assumption], remedies: Sequence[RemedyGain]) -> list[str]:
    """Name the assumed values of the machine that could change the conclusion."""
    sentences = []
    for of in assumptions:
        turns = [f"{side} that {what}" for side, what in (("below", of.below), ("above", of.above)) if what]
        if turns:
            sentences.append(
                f"{of.name} = {of.value} is assumed: this conclusion holds from {of.holds_from} to "
                f"{of.holds_to}, and {'; '.join(turns)}."
            )
    stays = _stays(remedies)
    if assumptions and stays and not sentences:
        names = ", ".join(of.name for of in assumptions)
        stated = [of.range_is_stated for of in assumptions]
        within = "from a third to three times its value"
        if any(stated):
            within = "within its stated range" + ("" if all(stated) else f", or {within} if none is stated")
        sentences.append(
            f"If any one value that the machine file assumes is varied {within}, {stays}. "
            f"{'These values are' if len(assumptions) > 1 else 'This value is'} assumed: {names}."
        )
    return sentences


def _stays(remedies: Sequence[RemedyGain]) -> str:
    """Say what no assumed value turns; nothing where no remedy was judged."""
    advised = next((r.policy for r in remedies if r.verdict == "gains"), None)
    if advised is not None:
        return f"'{advised}' still gains more than 2%"
    judged = {r.verdict for r in remedies}
    if "none" not in judged:
        return ""
    return (
        "still no remedy gains more than 2%"
        if judged == {"none"}
        else "the other remedies still gain no more than 2%"
    )
