/* One thread writes lines. Another one then works on them, while the first waits in a call. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static _Alignas(4096) volatile long field[512];
static int begun[2], done[2];  // pipes

static void* work(void* given) {
    char byte = 0;
    if (write(done[1], &byte, 1) != 1 || read(begun[0], &byte, 1) != 1) return 0;
    for (int round = 0; round < 8; ++round)
        for (volatile long* at = field; at < field + 512; ++at) ++*at;
    return write(done[1], &byte, 1) == 1 ? given : 0;
}

int main(void) {
    char byte = 0;
    void* worked = 0;
    pthread_t worker;
    if (pipe(begun) != 0 || pipe(done) != 0) return 1;
    if (pthread_create(&worker, 0, work, begun) != 0) return 1;
    if (read(done[0], &byte, 1) != 1) return 1;
    for (int i = 0; i < 512; ++i) field[i] = i;
    if (write(begun[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1) return 1;
    pthread_join(worker, &worked);
    puts(worked != 0 ? "done" : "failed");
    return worked == 0;
}
