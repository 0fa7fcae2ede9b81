/* One step of the work that the lab has done in a guest (pagelens/lab/memory_work.py writes them).
 */
#ifndef PAGELENS_WORK_STEP_H
#define PAGELENS_WORK_STEP_H

#include <stdint.h>

enum work_kind {
    WORK_TAKE = 1,  /* writes to `count` pages of region `region` from page `begin` on, in order */
    WORK_DROP = 2,  /* gives these pages back (MADV_DONTNEED) */
    WORK_LEAVE = 3, /* unmaps the region, as the end of a process does */
    WORK_READ = 4,  /* reads `count` pages of the lab's file through the page cache */
    WORK_LOOK = 5,  /* hands over which frames the regions hold, as words of pagemap */
    WORK_PIN = 6    /* pins these pages, as a device does that reads them, until the process ends */
};

struct work_step {
    uint32_t kind, region, begin, count;
};

#endif
