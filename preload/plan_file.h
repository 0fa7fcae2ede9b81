/*
 * The format in which `pagelens run --plan` hands a plan to the library (pagelens/run/plan_file.py
 * writes it): one little-endian file that is mapped and used as it is. The environment variable
 * PAGELENS_PLAN is its path.
 */
#ifndef PAGELENS_RUN_PLAN_FILE_H
#define PAGELENS_RUN_PLAN_FILE_H

#include <stdint.h>

#define PLAN_MAGIC "PLPLAN3\n"
enum {
    NODE_WORDS = 16, /* of 64 nodes each: CONFIG_NODES_SHIFT is at most 10 */
    MOST_PHASES = 255,
};

struct plan_part {
    uint64_t at, count; /* at: bytes from the file's beginning, a multiple of 8; count: elements */
};

struct plan_header {
    char magic[8];
    uint64_t bytes;                              /* of the file */
    uint64_t capacity;                           /* bytes of fast memory */
    uint64_t fast[NODE_WORDS], slow[NODE_WORDS]; /* a bit for each node; slow may have none */
    struct plan_part modules, places, steps, objects, variables;
    struct plan_part phases, shares, hooks;
    struct plan_part strings; /* bytes; the last one is zero */
};

/* A file that the process may load. Its places lie together, sorted by address. */
struct plan_module {
    uint64_t path; /* in the strings */
    uint64_t first, places;
};

/* Return addresses from `low` to below `high`, relative to where the file is loaded. */
struct plan_place {
    uint64_t low, high;
    uint64_t number; /* places with the same number count as one */
};

/* Call sites form a tree: a step goes from a stack frame to the one that called it. Step 0 is the
 * root. */
struct plan_step {
    uint32_t place;        /* the number of a place */
    uint32_t first, count; /* the steps that follow, sorted by their places */
    uint32_t object;       /* its index + 1, if a call site ends here; else 0 */
};

/* How an object gets its pages. The kernel's weights hold for RULE_WEIGHTED (Linux 6.9). */
enum plan_rule {
    RULE_FAST, /* the first pages, by the object's share, from the plan's fast nodes */
    RULE_PREFER,
    RULE_BIND,
    RULE_INTERLEAVE,
    RULE_WEIGHTED,
    RULES
};

struct plan_object {
    uint64_t name;              /* in the strings */
    double share;               /* of its pages that are to be in fast memory, from 0 to 1 */
    uint64_t row;               /* its index + 1 in `shares`; 0 if the object does not move */
    uint64_t rule;              /* for each rule but RULE_FAST, the share is 1 and the row is 0 */
    uint64_t nodes[NODE_WORDS]; /* of that rule */
};

/* Entry i names the region that is phase i + 1; everything else is phase 0. `shares` are doubles:
 * for each object that moves a row with one share for each of these phases. */
struct plan_phase {
    uint64_t name, bytes; /* where it begins in the strings; its length */
};

/* Where a file has the `count` function pointers through which its markers call (hooks/pagelens.h).
 * The address is relative to where the file is loaded. */
struct plan_hook {
    uint64_t module, address, count;
};

struct plan_variable {
    uint32_t module, object;
    uint64_t address, bytes; /* address: relative to where the file is loaded */
};

#endif
