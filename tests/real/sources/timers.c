// A timer's signals interrupt a calculation in registers and vectors; its result must not change.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static void on_tick(int number) {
    (void)number;
    char text[64];
    snprintf(text, sizeof text, "%d %f", (int)ticks, ticks * 0.5);  // uses vector registers
    ++ticks;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &every, NULL);
    static double a[4096];
    double sum = 0;
    unsigned hash = 1;
    for (long round = 0; round < 300 || ticks < 20; ++round) {
        memset(a, 0, sizeof a);
        double part = 0;
        for (int i = 0; i < 4096; ++i) a[i] = i * 0.25;
        for (int i = 0; i < 4096; ++i) part += a[i];
        if (round > 0 && part != sum) return 1;
        sum = part;
        hash = 1;
        for (int i = 0; i < 4096; ++i) hash = hash * 31 + (unsigned)a[i];
    }
    printf("%.2f %u\n", sum, hash);
    return 0;
}
