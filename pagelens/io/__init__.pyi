from .apply import (
    LEAST as LEAST,
    MOST as MOST,
    MOST_THREADS as MOST_THREADS,
    Advice as Advice,
    Compared as Compared,
    become_applied as become_applied,
    compare as compare,
    parse_buffer as parse_buffer,
    parse_hint as parse_hint,
    parse_property as parse_property,
    without_effect as without_effect,
    written_files as written_files,
)
from .facts import (
    Facts as Facts,
    describe as describe,
)
from .explanation import (
    GOOD as GOOD,
    Explanation as Explanation,
    Way as Way,
    busiest_folder as busiest_folder,
    explain_recording as explain_recording,
    in_words as in_words,
)
from .notes import (
    WORTH as WORTH,
)
from .recording_gaps import (
    gaps as gaps,
)
from .history import (
    steps_with_files as steps_with_files,
    transferred as transferred,
)
from .importers.import_log import (
    FORMATS as FORMATS,
    import_log as import_log,
)
from .page import (
    render_page as render_page,
)
from .predict import (
    predict_transfers as predict_transfers,
)
from .recorder import (
    Recorded as Recorded,
    open_recording as open_recording,
    record_program as record_program,
)
from .recording import (
    Recording as Recording,
)
from .scratch_steps import (
    replayable as replayable,
)
from .what_if import (
    saved_by_advice as saved_by_advice,
)
