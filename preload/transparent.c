#define _GNU_SOURCE
#include "preload/transparent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "preload/counts.h"

/* From linux/fs.h of Linux 6.7, the first with this call; see
 * Documentation/admin-guide/mm/pagemap.rst. */
struct region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN _IOWR('f', 16, struct scan)
enum { IS_PRESENT = 1 << 3, IS_HUGE = 1 << 6, REGIONS = 64 };

void transparent_look(const struct span* span) {
    if (!settings.report || span->part[PAGES_THP] == 0) return;
    const int saved_errno = errno;
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0) return;
    struct region regions[REGIONS];
    struct scan scan = {.size = sizeof scan,
                        .start = span->start + span_pool_bytes(span),
                        .end = span->start + span->bytes,
                        .vec = (uintptr_t)regions,
                        .vec_len = REGIONS,
                        .category_mask = IS_PRESENT,
                        .return_mask = IS_PRESENT | IS_HUGE};
    int found;
    while (scan.start < scan.end && (found = ioctl(pagemap, SCAN, &scan)) >= 0) {
        for (int i = 0; i < found; i++) {
            const size_t bytes = regions[i].end - regions[i].start;
            __atomic_fetch_add(&counts.seen, bytes, __ATOMIC_RELAXED);
            if (regions[i].categories & IS_HUGE)
                __atomic_fetch_add(&counts.seen_huge, bytes, __ATOMIC_RELAXED);
        }
        if (scan.walk_end <= scan.start) break;
        scan.start = scan.walk_end;
    }
    close(pagemap);
    errno = saved_errno;
}
