/*
 * Holds frames that nothing maps. The pages are spliced into pipes, which keep their frames. The
 * program's page can then be given back and gets another frame when it is touched next. This needs
 * no further mapping, however many frames are held.
 */
#ifndef PAGELENS_RUN_PINS_H
#define PAGELENS_RUN_PINS_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_PIPES = 1024 };

struct pins {
    int full[MOST_PIPES]; /* reading ends of full pipes; they keep the pages in them */
    size_t count;
    int into, from; /* both ends of the pipe that still has room */
    size_t room;    /* of that pipe, in pages; 0 if there is no such pipe */
};

/* Holds the frames of `bytes` from `start` on. Returns of how many bytes it could. */
size_t pins_hold(struct pins* pins, uintptr_t start, size_t bytes);

void pins_release(struct pins* pins);

#endif
