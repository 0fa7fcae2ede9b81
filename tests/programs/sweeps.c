/* Random walks over 32 MiB: a trace that grows. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    enum { bytes = 32 << 20 };
    volatile char* block = malloc(bytes);
    unsigned long state = 1;
    for (int i = 0; i < 1000000; ++i) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        block[(state >> 33) % bytes] = 1;
    }
    puts("done");
    return 0;
}
