/*
 * A plan as `pagelens run --plan` hands it over (pagelens/run/plan_file.py writes it): one file,
 * little-endian, that is mapped and used as it is. PAGELENS_PLAN is its path.
 */
#ifndef PAGELENS_RUN_PLAN_FILE_H
#define PAGELENS_RUN_PLAN_FILE_H

#include <stdint.h>

#define PLAN_MAGIC "PLPLAN2\n"
enum {
    NODE_WORDS = 16, /* of 64 nodes each: CONFIG_NODES_SHIFT is at most 10 */
    MOST_PHASES = 255,
};

struct plan_part {
    uint64_t at, count; /* bytes from the file's beginning, a multiple of 8; elements */
};

struct plan_header {
    char magic[8];
    uint64_t bytes;                              /* of the file */
    uint64_t capacity;                           /* bytes of fast memory */
    uint64_t fast[NODE_WORDS], slow[NODE_WORDS]; /* nodes, a bit each; no slow one: as it is */
    struct plan_part modules, places, steps, objects, variables;
    struct plan_part phases, shares, hooks;
    struct plan_part strings; /* bytes, the last one zero */
};

/* A file that is loaded; its places lie together, in order. */
struct plan_module {
    uint64_t path; /* in the strings */
    uint64_t first, places;
};

/* Return addresses in the file's own terms, of `low` and more and below `high`. */
struct plan_place {
    uint64_t low, high;
    uint64_t number; /* places of one number are one */
};

/* Sites as a tree: a step goes from a frame to the one that called it. The 0th is where all begin.
 */
struct plan_step {
    uint32_t place;        /* by its number */
    uint32_t first, count; /* what follows: steps in order of their places */
    uint32_t object;       /* + 1, of a site that ends here; 0: none does */
};

struct plan_object {
    uint64_t name; /* in the strings */
    double share;  /* of its pages that are to lie in fast memory; 0: it is to be slow */
    uint64_t row;  /* of `shares`, + 1; 0: it does not move */
};

/* A region of this name is a phase of its own, the i-th is phase i + 1; all else is phase 0.
 * `shares` are doubles, a row of as many as there are phases for each object that moves. */
struct plan_phase {
    uint64_t name, bytes; /* in the strings */
};

/* Where a file has the pointers that its markers of regions call (hooks/pagelens.h). */
struct plan_hook {
    uint64_t module, address, count; /* in the file's own terms; pointers */
};

struct plan_variable {
    uint32_t module, object;
    uint64_t address, bytes; /* in the file's own terms */
};

#endif
