from .analysis import explain as explain
from .assumptions import Tried as Tried
from .cause_words import (
    interaction_in_words as interaction_in_words,
    mean_in_words as mean_in_words,
)
from .conclusion import LONGER_RUN as LONGER_RUN, is_too_short as is_too_short
from .job_cost import job_cost_in_words as job_cost_in_words
from .model import (
    Distribution as Distribution,
    Explanation as Explanation,
    JobCostRecord as JobCostRecord,
    TimedRecord as TimedRecord,
)
from .outputs import write_outputs as write_outputs
from .own_files import own_files_in_words as own_files_in_words
from .remedies import choose_policies as choose_policies
from .remedy_words import has_effect as has_effect
from .timed import time_beside as time_beside
from .words import (
    other_instructions as other_instructions,
    RESOURCES_IN_WORDS as RESOURCES_IN_WORDS,
    job_in_words as job_in_words,
    large_page_note as large_page_note,
    shares_in_words as shares_in_words,
    stopped_note as stopped_note,
    moved_pages_note as moved_pages_note,
    overlap_note as overlap_note,
    slow_tier_note as slow_tier_note,
    unpriced_lines_note as unpriced_lines_note,
)
