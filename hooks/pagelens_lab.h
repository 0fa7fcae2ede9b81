/*
 * pagelens_lab.h: further records for hooks/pagelens.h, by which the lab's programs in the guest
 * tell the lab's plugin what to count. Not for users' programs; those may name regions.
 */
#ifndef PAGELENS_LAB_H
#define PAGELENS_LAB_H

#include "hooks/pagelens.h"

enum pagelens_lab_kind {
    PAGELENS_LAB_BEGIN = 64,  /* count from here on; `address` and `size` of the phase's name */
    PAGELENS_LAB_END = 65,    /* report what was counted, and count no more */
    PAGELENS_LAB_PAUSE = 66,  /* what follows is the lab's own work ... */
    PAGELENS_LAB_RESUME = 67, /* ... up to here */
    PAGELENS_LAB_DATA = 68, /* hands `size` bytes at `address` to the lab; all have been touched */
    PAGELENS_LAB_ADDRESS = 69 /* report the frame that this record lies in: a self-test */
};

static inline void pagelens_lab_ring(enum pagelens_lab_kind kind, const void* address,
                                     uint64_t size) {
    struct pagelens_record record = {kind, (uintptr_t)address, size};
    pagelens_ring(&record);
}

#endif
