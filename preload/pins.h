/*
 * Frames that are held though nothing maps them: pages spliced into pipes, so that the page can be
 * given back and gets another frame at the next touch. No mapping more, however many they are.
 */
#ifndef PAGELENS_RUN_PINS_H
#define PAGELENS_RUN_PINS_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_PIPES = 1024 };

struct pins {
    int full[MOST_PIPES]; /* their ends for reading, which keep what is in them */
    size_t count;
    int into, from; /* the one that still has room */
    size_t room;    /* pages; 0: there is none */
};

/* Holds the frames under `bytes` from `start` on; how many bytes of them could be. */
size_t pins_hold(struct pins* pins, uintptr_t start, size_t bytes);

void pins_release(struct pins* pins);

#endif
