#define _GNU_SOURCE
#include "preload/records.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/system.h"

enum { SLAB_BYTES = 64 << 10 };

struct record {
    struct record* next;
};
static struct record* unused;

static void* map_slab(void) {
    void* slab = map_memory(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    return slab == MAP_FAILED ? NULL : slab;
}

void* record_take(void) {
    if (unused == NULL) {
        char* slab = map_slab();
        if (slab == NULL) return NULL;
        for (size_t at = 0; at < SLAB_BYTES; at += RECORD_BYTES) record_give(slab + at);
    }
    struct record* record = unused;
    unused = record->next;
    return memset(record, 0, RECORD_BYTES);
}

void record_give(void* record) {
    struct record* given = record;
    given->next = unused;
    unused = given;
}
