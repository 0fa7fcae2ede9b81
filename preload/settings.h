/*
 * The settings that `pagelens run` passes to the library, in the environment variable PAGELENS_RUN:
 *
 *   main=4711,pages=2m,large=131072,period=0,cache=0,guest=1,json=0,report=FILE
 *
 * Keys may be in any order, each at most once. `report` comes last and takes the rest of the text,
 * including commas.
 */
#ifndef PAGELENS_RUN_SETTINGS_H
#define PAGELENS_RUN_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Kinds of pages, from the largest on. If one cannot be had, the next is taken. */
enum page_kind { PAGES_1G, PAGES_2M, PAGES_THP, PAGES_4K, PAGE_KINDS };

struct settings {
    pid_t main;           /* the process that `pagelens run` became; 0 if unknown */
    enum page_kind pages; /* PAGES_4K: whatever the kernel gives */
    size_t large;         /* blocks of so many bytes and more are large */
    size_t period;  /* bytes over which blocks are spread, those of the machine's conflicts; or 0 */
    uint64_t cache; /* bytes of the memory-side cache for which frames are chosen; or 0 */
    bool guest;     /* the frames are those of a virtual machine */
    bool report, json;   /* report when the process ends; report as JSON */
    char path[PATH_MAX]; /* of the report: %r is the MPI rank, %p the process; stderr if empty */
};

extern struct settings settings; /* of this process; constant once blocks are handed out */

/* Reads `text`. Returns NULL, or what is wrong with the text, in static storage; do not use `into`
 * then. */
const char* settings_parse(const char* text, struct settings* into);

const char* page_kind_name(enum page_kind kind); /* the name as in `pages=` */

#endif
