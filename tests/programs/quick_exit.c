/* Fills 1 MiB, and ends by quick_exit, which calls none of the functions that exit calls. */
#include <stdlib.h>

static char* bytes;

static void fill_again(void) {
    for (int i = 0; i < 1 << 20; ++i) bytes[i] = 2;
}

int main(void) {
    bytes = malloc(1 << 20);
    if (!bytes) return 1;
    for (int i = 0; i < 1 << 20; ++i) bytes[i] = 1;
    at_quick_exit(fill_again);
    quick_exit(5);
}
