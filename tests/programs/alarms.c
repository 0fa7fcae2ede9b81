/* Works without a system call until an alarm of its timer rings, 20 times: it loads and stores
   (argv[1] is "accesses") or lets an instruction scan a string ("scans"). */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static volatile sig_atomic_t rung;
static volatile char field[1 << 22];

static void ring(int number) {
    (void)number;
    rung = 1;
}

static int accesses(void) {
    unsigned at = 1, left = 1 << 25;
    for (; !rung && left > 0; --left) {
        ++field[at >> 10];
        at = at * 1664525 + 1013904223;
    }
    return left > 0;
}

static int scans(void) {
    unsigned left = 1 << 20;
    for (; !rung && left > 0; --left) {
        const volatile char* at = field;
        unsigned long length = 64;
        __asm__ volatile("repe scasb" : "+D"(at), "+c"(length) : "a"(0) : "memory", "cc");
    }
    return left > 0;
}

int main(int argc, char** argv) {
    int (*const work)(void) = argc > 1 && strcmp(argv[1], "scans") == 0 ? scans : accesses;
    const struct itimerval soon = {{0, 0}, {0, 1000}};
    signal(SIGALRM, ring);
    for (int i = 0; i < 20; ++i) {
        rung = 0;
        setitimer(ITIMER_REAL, &soon, 0);
        if (!work()) {
            printf("no alarm after %d\n", i);
            return 1;
        }
    }
    puts("20 alarms");
    return 0;
}
