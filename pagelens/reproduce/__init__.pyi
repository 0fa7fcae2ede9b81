from .blind import blind_study as blind_study
from .claim import (
    Kind as Kind,
    Row as Row,
    Verdict as Verdict,
    score as score,
    tally as tally,
)
from .context import Scale as Scale
from .ranges import with_ranges as with_ranges
from .result import Reproduction as Reproduction
from .runner import (
    DATA as DATA,
    FIGURES as FIGURES,
    PAGE as PAGE,
    run_studies as run_studies,
)
from .studies import find_study as find_study, study_names as study_names
from .study import Findings as Findings, Study as Study
