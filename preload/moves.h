/* Objects of the plan that lie elsewhere in one marked region than in another. */
#ifndef PAGELENS_RUN_MOVES_H
#define PAGELENS_RUN_MOVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether objects may move once more, after moves of so many nanoseconds in a run of so many: of a
 * second, and then of a tenth of the run. Plans are made for regions that are worth it; of visits
 * that are short and many the profile does not know. */
static inline bool moves_allowed(uint64_t spent, uint64_t elapsed) {
    const uint64_t second = 1000000000;
    return spent <= second || spent <= elapsed / 10;
}

/* It is in another one, or the same: objects whose shares differ are moved. One thread at a time.
 */
void moves_to(size_t phase);

struct moves_counts {
    size_t changes;      /* of the phase, for which something was looked at */
    size_t skipped;      /* and for which nothing was, since moves took too long */
    size_t blocks;       /* of them, mappings and variables, whose border was shifted; each time */
    size_t moved_bytes;  /* of pages that came to the other memory */
    size_t stayed_bytes; /* and of those that were to and did not */
    uint64_t nanoseconds;
};
extern struct moves_counts moves_counts;

#endif
