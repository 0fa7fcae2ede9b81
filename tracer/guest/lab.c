/* /bin/lab: what the lab does inside the guest. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hooks/pagelens_lab.h"
#include "tracer/guest/tools.h"

enum { PAGE_BYTES = 4096 };

void fail(const char* what) {
    fprintf(stderr, "lab: %s: %s\n", what, strerror(errno));
    exit(125);
}

void hand_over(const void* bytes, size_t size) {
    pagelens_lab_ring(PAGELENS_LAB_DATA, bytes, size);
}

/* `lab send FILE`: hands over what can be read from a file. */
static int send_file(int argc, char** argv) {
    const int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0) fail("send");
    static char bytes[1 << 16];
    for (ssize_t got; (got = read(file, bytes, sizeof bytes)) != 0;) {
        if (got < 0) fail(argv[1]);
        hand_over(bytes, (size_t)got);
    }
    return 0;
}

/* `lab touch BYTES [LOG2]`: writes to each page of that much memory, in order; of hugetlb pages of
 * 2^LOG2 bytes if given. */
static int touch(int argc, char** argv) {
    if (argc < 2) fail("touch");
    const unsigned bits = argc > 2 ? (unsigned)atoi(argv[2]) : 12;
    const size_t page = (size_t)1 << bits;
    const size_t bytes = (strtoull(argv[1], NULL, 10) + page - 1) / page * page;
    const int huge = bits > 12 ? MAP_HUGETLB | (int)(bits << MAP_HUGE_SHIFT) : 0;
    char* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | huge, -1, 0);
    if (memory == MAP_FAILED) fail("touch");
    for (size_t at = 0; at < bytes; at += PAGE_BYTES) memory[at] = 1;
    return 0;
}

/* `lab where COUNT STEP`: of COUNT pages, first their frames as /proc/self/pagemap has them, handed
 * over as 64-bit numbers, then a report of each STEP-th page by the lab. */
static int where(int argc, char** argv) {
    const size_t count = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    const size_t step = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    char* memory = mmap(NULL, count * PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) fail("where");
    madvise(memory, count * PAGE_BYTES, MADV_HUGEPAGE); /* which is faster under an emulator */
    for (size_t i = 0; i < count; ++i) memory[i * PAGE_BYTES] = 0;
    uint64_t* frames = calloc(count, sizeof *frames);
    const int pagemap = open("/proc/self/pagemap", O_RDONLY);
    if (frames == NULL || pagemap < 0 || step == 0) fail("where");
    const off_t at = (off_t)((uintptr_t)memory / PAGE_BYTES * sizeof *frames);
    if (pread(pagemap, frames, count * sizeof *frames, at) < 0) fail("pagemap");
    hand_over(frames, count * sizeof *frames);
    for (size_t i = 0; i < count; i += step) {
        struct pagelens_record* record = (struct pagelens_record*)(void*)(memory + i * PAGE_BYTES);
        record->kind = PAGELENS_LAB_ADDRESS;
        pagelens_ring(record);
    }
    return 0;
}

int main(int argc, char** argv) {
    static const struct {
        const char* name;
        int (*run)(int, char**);
    } tools[] = {
        {"job", job},        {"work", work},   {"hold", hold},
        {"send", send_file}, {"touch", touch}, {"where", where},
    };
    for (size_t i = 0; argc > 1 && i < sizeof tools / sizeof *tools; ++i) {
        if (strcmp(argv[1], tools[i].name) == 0) return tools[i].run(argc - 1, argv + 1);
    }
    errno = EINVAL;
    fail(argc > 1 ? argv[1] : "no tool");
}
