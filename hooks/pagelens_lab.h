/*
 * More kinds of records for hooks/pagelens.h. The lab's programs in the guest use them to tell the
 * lab's plugin what to count. They are not for users' programs, which may only name regions.
 */
#ifndef PAGELENS_LAB_H
#define PAGELENS_LAB_H

#include "hooks/pagelens.h"

enum pagelens_lab_kind {
    PAGELENS_LAB_BEGIN = 64,  /* begin to count; `address` and `size` give the phase's name */
    PAGELENS_LAB_END = 65,    /* stop counting, and report the counts */
    PAGELENS_LAB_PAUSE = 66,  /* do not count the lab's own work ... */
    PAGELENS_LAB_RESUME = 67, /* ... until here */
    PAGELENS_LAB_DATA = 68,   /* give `size` bytes at `address`, all touched before, to the lab */
    PAGELENS_LAB_ADDRESS = 69 /* report the frame of this record, as a self-test */
};

static inline void pagelens_lab_ring(enum pagelens_lab_kind kind, const void* address,
                                     uint64_t size) {
    struct pagelens_record record = {kind, (uintptr_t)address, size};
    pagelens_ring(&record);
}

#endif
