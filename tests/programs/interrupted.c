/* Takes Ctrl-C as the wish to end in order: says so, and ends with status 5. */
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t wished;
static volatile char field[1 << 20];

static void wish(int number) {
    (void)number;
    wished = 1;
}

int main(void) {
    signal(SIGINT, wish);
    puts("ready");
    fflush(stdout);
    for (unsigned i = 0; !wished; i += 64) field[i % sizeof field]++;
    puts("in order");
    return 5;
}
