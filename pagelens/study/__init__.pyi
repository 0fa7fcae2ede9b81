from .costs import Status as Status
from .effects import Effect as Effect, effects_of as effects_of
from .indices import Index as Index, indices_of as indices_of
from .report import write_report as write_report
from .result import StudyResult as StudyResult
from .running import (
    default_folder as default_folder,
    study as study,
    study_part as study_part,
    study_so_far as study_so_far,
)
from .words import answer_in_words as answer_in_words, sentences as sentences, shown_answer as shown_answer
