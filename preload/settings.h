/*
 * What `pagelens run` asks of the library, in the environment variable PAGELENS_RUN:
 *
 *   main=4711,pages=2m,large=131072,period=0,cache=0,guest=1,json=0,report=FILE
 *
 * Keys in any order, each at most once; `report` comes last and takes the rest, commas included.
 */
#ifndef PAGELENS_RUN_SETTINGS_H
#define PAGELENS_RUN_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Kinds of pages, best first; what is not to be had falls to the next. */
enum page_kind { PAGES_1G, PAGES_2M, PAGES_THP, PAGES_4K, PAGE_KINDS };

struct settings {
    pid_t main;           /* the process that `pagelens run` became; 0: not said */
    enum page_kind pages; /* PAGES_4K: as they come */
    size_t large;         /* bytes from which a block is large */
    size_t period;        /* of the machine's conflicts, over which blocks are spread; 0: not */
    uint64_t cache;       /* bytes of the memory-side cache that frames are chosen for; 0: not */
    bool guest;           /* frames are a virtual machine's */
    bool report, json;    /* at exit; as JSON */
    char path[PATH_MAX];  /* of the report, %r the MPI rank, %p the process; empty: stderr */
};

extern struct settings settings; /* of this process; do not change once blocks are handed out */

/* Reads `text`. NULL, or what is wrong with it, in static storage; what was read is not to be used
 * then. */
const char* settings_parse(const char* text, struct settings* into);

const char* page_kind_name(enum page_kind kind); /* as in `pages=` */

#endif
