/*
 * Orders the kernel's pool of huge pages for a direct-mapped memory-side cache, without a module:
 *
 *   pagelens_hugepages PAGE_BYTES CACHE_BYTES NODE
 *
 * The pool of a node is a stack: the page freed last is handed out first. So this takes all free
 * pages of the pool, reads their frames from /proc/self/pagemap, and gives them back in the reverse
 * of the order wanted: that of docs/zonesort.md, step 4, for a list of such pages. CACHE_BYTES 0
 * gives them back as they were. Prints their first frames (of 4096 bytes), as the pool will hand
 * them out, one a line.
 *
 * Status: 0; 1 with a reason on stderr, the pool then being in any order, but whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FRAME_BYTES = 4096, MOST_NODES = 1024, BIND = 2 /* MPOL_BIND, linux/mempolicy.h */ };

/* Bits of /proc/kpageflags (linux/kernel-page-flags.h). */
enum { KPF_BUDDY = 10, KPF_HUGE = 17, KPF_NOPAGE = 20 };

struct page {
    uint64_t frame; /* first one */
    uint64_t group; /* the slots it has */
    uint64_t turn;  /* pages of this group that come before it */
    uint64_t gain;  /* of its group: 2 for an empty slot, 1 for one with a frame in use */
    char* at;       /* where it is mapped */
};

static void give_up(const char* what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t number(const char* text) {
    char* end;
    errno = 0;
    const uint64_t value = strtoull(text, &end, 10);
    if (*end || end == text || errno) {
        errno = EINVAL;
        give_up(text);
    }
    return value;
}

static void* room_for(size_t count, size_t size) {
    void* room = calloc(count + 1, size);
    if (!room) give_up("no memory");
    return room;
}

static uint64_t read_count(const char* folder, const char* file) {
    char path[160], text[32] = "";
    snprintf(path, sizeof path, "%s/%s", folder, file);
    const int source = open(path, O_RDONLY);
    if (source < 0 || read(source, text, sizeof text - 1) <= 0) give_up(path);
    close(source);
    text[strcspn(text, "\n")] = '\0';
    return number(text);
}

/* Free pages of the node's pool that nobody has reserved. */
static size_t pages_in_pool(uint64_t page_bytes, uint64_t node) {
    char all[96], of_node[128];
    snprintf(all, sizeof all, "/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB", page_bytes >> 10);
    snprintf(of_node, sizeof of_node,
             "/sys/devices/system/node/node%" PRIu64 "/hugepages/hugepages-%" PRIu64 "kB", node,
             page_bytes >> 10);
    const uint64_t free_pages = read_count(of_node, "free_hugepages");
    const uint64_t everywhere = read_count(all, "free_hugepages");
    const uint64_t reserved = read_count(all, "resv_hugepages");
    const uint64_t ours = everywhere > reserved ? everywhere - reserved : 0;
    return free_pages < ours ? free_pages : ours;
}

/* Maps `count` pages of the node's pool and touches them in turn: page i is the pool's i-th. */
static char* take_pool(size_t count, uint64_t page_bytes, uint64_t node) {
    unsigned long nodes[MOST_NODES / 64] = {0};
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
                      __builtin_ctzll(page_bytes) << 26; /* MAP_HUGE_SHIFT */
    char* at = mmap(NULL, count * page_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) give_up("cannot map the pool");
    nodes[node / 64] |= 1ul << node % 64;
    if (syscall(SYS_mbind, at, count * page_bytes, BIND, nodes, MOST_NODES + 1, 0) &&
        errno != ENOSYS)
        give_up("cannot bind to the node");
    /* Asked for page by page: an empty pool is an error here, and not a SIGBUS. */
    for (size_t i = 0; i < count; i++)
        if (madvise(at + i * page_bytes, page_bytes, 23 /* MADV_POPULATE_WRITE, Linux 5.14 */))
            give_up(errno == EINVAL ? "Linux 5.14 or later is needed" : "the pool ran dry");
    return at;
}

static void read_frames(struct page* pages, size_t count) {
    const int pagemap = open("/proc/self/pagemap", O_RDONLY);
    if (pagemap < 0) give_up("/proc/self/pagemap");
    for (size_t i = 0; i < count; i++) {
        uint64_t entry;
        const off_t at = (off_t)((uintptr_t)pages[i].at / FRAME_BYTES * sizeof entry);
        if (pread(pagemap, &entry, sizeof entry, at) != sizeof entry) give_up("/proc/self/pagemap");
        pages[i].frame = entry & ((UINT64_C(1) << 55) - 1);
        if (pages[i].frame == 0) {
            errno = EPERM;
            give_up("frames are shown to root only");
        }
    }
    close(pagemap);
}

struct range {
    uint64_t begin, end;
};

/* A node's frames, from its first zone's to its last one's: each node has a cache of its own. */
static struct range frames_of(uint64_t node) {
    struct range all = {UINT64_MAX, 0};
    uint64_t of = UINT64_MAX, spanned = 0, value;
    char line[256];
    FILE* zones = fopen("/proc/zoneinfo", "r");
    if (!zones) give_up("/proc/zoneinfo");
    while (fgets(line, sizeof line, zones)) {
        if (sscanf(line, "Node %" SCNu64 ", zone", &value) == 1) {
            of = value;
        } else if (sscanf(line, " spanned %" SCNu64, &value) == 1) {
            spanned = value;
        } else if (of == node && sscanf(line, " start_pfn: %" SCNu64, &value) == 1) {
            if (value < all.begin) all.begin = value;
            if (value + spanned > all.end) all.end = value + spanned;
        }
    }
    fclose(zones);
    return all;
}

/* One byte a slot: whether a frame in use, of the node but of no pool, lies there. */
static uint8_t* slots_in_use(uint64_t slots, uint64_t node) {
    static uint64_t flags[8192];
    const struct range frames = frames_of(node);
    uint8_t* used = room_for(slots, 1);
    const int source = open("/proc/kpageflags", O_RDONLY);
    if (source < 0) give_up("/proc/kpageflags");
    const uint64_t not_in_use = 1u << KPF_BUDDY | 1u << KPF_HUGE | 1u << KPF_NOPAGE;
    for (uint64_t frame = frames.begin; frame < frames.end;) {
        const ssize_t got = pread(source, flags, sizeof flags, (off_t)(frame * sizeof *flags));
        if (got < 0) give_up("/proc/kpageflags");
        if (got == 0) break; /* the end of memory */
        const uint64_t end = frame + (uint64_t)got / sizeof *flags;
        for (const uint64_t* flag = flags; frame < end && frame < frames.end; frame++)
            if (!(*flag++ & not_in_use)) used[frame % slots] = 1;
    }
    close(source);
    return used;
}

static int by_group(const void* left, const void* right) {
    const struct page *a = left, *b = right;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    return (a->frame > b->frame) - (a->frame < b->frame);
}

/* By turns: the first by gain, descending, all later ones by group. */
static int by_rule(const void* left, const void* right) {
    const struct page *a = left, *b = right;
    if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
    if (a->turn == 0 && a->gain != b->gain) return a->gain > b->gain ? -1 : 1;
    return by_group(a, b);
}

static void order(struct page* pages, size_t count, uint64_t slots, uint64_t frames_per_page,
                  uint64_t node) {
    uint8_t* used = slots_in_use(slots, node);
    for (size_t i = 0; i < count; i++) pages[i].group = pages[i].frame % slots / frames_per_page;
    qsort(pages, count, sizeof *pages, by_group);
    for (size_t i = 0; i < count; i++) {
        const bool later = i > 0 && pages[i - 1].group == pages[i].group;
        pages[i].turn = later ? pages[i - 1].turn + 1 : 0;
        pages[i].gain = 2 * frames_per_page;
        for (uint64_t slot = 0; slot < frames_per_page; slot++)
            pages[i].gain -= used[(pages[i].frame + slot) % slots];
    }
    qsort(pages, count, sizeof *pages, by_rule);
    free(used);
}

int main(int words, char** word) {
    if (words != 4) {
        fprintf(stderr, "usage: pagelens_hugepages PAGE_BYTES CACHE_BYTES NODE\n");
        return 2;
    }
    const uint64_t page_bytes = number(word[1]), cache_bytes = number(word[2]),
                   node = number(word[3]);
    if (page_bytes < FRAME_BYTES || page_bytes & (page_bytes - 1) || node >= MOST_NODES ||
        cache_bytes % page_bytes) {
        errno = EINVAL;
        give_up("PAGE_BYTES a power of two, CACHE_BYTES a multiple of it, NODE < 1024");
    }
    const size_t count = pages_in_pool(page_bytes, node);
    if (count == 0) return 0;
    struct page* pages = room_for(count, sizeof *pages);
    char* at = take_pool(count, page_bytes, node);
    for (size_t i = 0; i < count; i++) pages[i].at = at + i * page_bytes;
    read_frames(pages, count);
    if (cache_bytes) order(pages, count, cache_bytes / FRAME_BYTES, page_bytes / FRAME_BYTES, node);
    for (size_t i = count; i-- > 0;)
        if (madvise(pages[i].at, page_bytes, MADV_DONTNEED)) give_up("cannot give a page back");
    for (size_t i = 0; i < count; i++) printf("%" PRIu64 "\n", pages[i].frame);
    return 0;
}
