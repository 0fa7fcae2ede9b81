// Forks while another thread allocates and accesses memory; the children allocate, too.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;
static char big[8 << 20];

static void* busy(void* given) {
    unsigned state = 1;
    while (!stop) {
        state = state * 1664525 + 1013904223;
        big[state % sizeof big]++;
        free(malloc(state % 1000 + 1));
    }
    return given;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, busy, NULL);
    int good = 0;
    for (int i = 0; i < 5; ++i) {
        for (unsigned at = 0; at < sizeof big; at += 64) big[at]++;
        const pid_t child = fork();
        if (child == 0) {
            char* own = malloc(100000);
            memset(own, 1, 100000);
            free(own);
            _exit(3);
        }
        int status = 0;
        waitpid(child, &status, 0);
        good += WEXITSTATUS(status) == 3;
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("%d\n", good);
    return 0;
}
