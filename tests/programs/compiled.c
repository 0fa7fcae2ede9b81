/* Loads and stores of every kind that a compiler tells of: compiled ROUNDS. Prints a checksum. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 1024, LINE = 64 };

struct block {
    char bytes[200];
};

static struct block blocks[64];
static _Atomic uint64_t counters[LINES * 8];

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 1;
    char* from = malloc(LINES * LINE);
    char* to = malloc(LINES * LINE);
    uint64_t sum = 0;
    memset(from, 1, LINES * LINE);
    for (int round = 0; round < rounds; ++round) {
        memcpy(to, from, LINES * LINE);
        memmove(from + LINE, to, (LINES - 1) * LINE);
        sum += (uint64_t)memcmp(from, to, LINES * LINE) + strlen(argv[0]) * 0;
        for (int i = 0; i < LINES; ++i) atomic_fetch_add(&counters[8 * i], 1);
        uint64_t expected = 1;
        sum += atomic_compare_exchange_strong(&counters[0], &expected, 5);
        for (int i = 1; i < 64; ++i) blocks[i] = blocks[i - 1];
    }
    for (int i = 0; i < LINES; ++i) sum += (uint64_t)to[i * LINE] + atomic_load(&counters[8 * i]);
    printf("%lu\n", (unsigned long)sum);
    free(from);
    free(to);
    return 3;
}
