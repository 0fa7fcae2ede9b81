/* Moves objects of the plan that lie in fast memory in one marked region and not in another. */
#ifndef PAGELENS_RUN_MOVES_H
#define PAGELENS_RUN_MOVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether objects may move once more, when moves have taken `spent` of `elapsed` nanoseconds. Moves
 * may take one second in any case, and a tenth of the run if that is more. A plan only has moves
 * that pay off by its profile, but the profile does not show that a region may be entered often and
 * briefly. */
static inline bool moves_allowed(uint64_t spent, uint64_t elapsed) {
    const uint64_t second = 1000000000;
    return spent <= second || spent <= elapsed / 10;
}

/* Enters a phase, and moves the objects whose shares differ in it. One thread at a time. */
void moves_to(size_t phase);

struct moves_counts {
    size_t changes;      /* changes of the phase for which objects were moved */
    size_t skipped;      /* changes for which none was, because moves took too long */
    size_t blocks;       /* how often the border of a block, mapping or variable was shifted */
    size_t moved_bytes;  /* of pages that arrived in the other memory */
    size_t stayed_bytes; /* of pages that should have, and did not */
    uint64_t nanoseconds;
};
extern struct moves_counts moves_counts;

#endif
