#include "preload/slots.h"

static int after(const struct unit* a, const struct unit* b) {
    if (a->key != b->key) return a->key > b->key;
    if (a->spare != b->spare) return a->spare > b->spare;
    return a->at > b->at;
}

static void sift(struct unit* units, size_t root, size_t count) {
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && after(&units[child + 1], &units[child])) child++;
        if (!after(&units[child], &units[root])) return;
        const struct unit swapped = units[root];
        units[root] = units[child];
        units[child] = swapped;
    }
}

/* A heap sort, because the C library's qsort may allocate and this is called from within malloc. */
static void sort(struct unit* units, size_t count) {
    for (size_t root = count / 2; root-- > 0;) sift(units, root, count);
    for (size_t left = count; left > 1;) {
        left--;
        const struct unit largest = units[0];
        units[0] = units[left];
        units[left] = largest;
        sift(units, 0, left);
    }
}

void units_order(struct unit* units, size_t count, uint32_t* population, uint32_t pages) {
    for (uint32_t spare = 0; spare < 2; spare++)
        for (size_t i = 0; i < count; i++) {
            if (units[i].spare != spare) continue;
            units[i].key = population[units[i].group];
            population[units[i].group] += pages;
        }
    for (size_t i = 0; i < count; i++) population[units[i].group] -= pages;
    sort(units, count);
}
