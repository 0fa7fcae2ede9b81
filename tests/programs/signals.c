/* A handler that touches memory while the program works; or the program's end by signal argv[1]. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static volatile char touched[1 << 16];

static void tick(int number) {
    (void)number;
    for (int i = 0; i < 1 << 16; ++i) touched[i]++;
    ++ticks;
}

int main(int argc, char** argv) {
    if (argc > 1) {
        volatile char* block = malloc(1 << 20);
        for (int i = 0; i < 1 << 20; ++i) block[i] = 1;
        raise(atoi(argv[1]));
        return 1;
    }
    const struct itimerval every = {{0, 2000}, {0, 2000}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every, 0);
    for (volatile double x = 0; ticks < 10; x += 1) continue;
    puts("10 ticks");
    return 0;
}
