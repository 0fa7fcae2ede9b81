// The program's last thread ends by `exit`, not by `exit_group`. Its accesses fill buffers before.
// With an argument, this is another thread than the first, which has ended by then: right after it
// began the other one (`young`), or later (`another`), or with so many others at once (`many`).
// With `none`, the other thread cannot begin.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile char bytes[4 << 20];
static pthread_barrier_t together;

static void* end_later(void* unused) {
    for (unsigned i = 0; i < sizeof bytes; i += 64) bytes[i] = 1;
    usleep(300000);
    syscall(SYS_exit, 7);
    return unused;
}

static void* end_together(void* unused) {
    pthread_barrier_wait(&together);
    syscall(SYS_exit, 7);
    return unused;
}

int main(int argc, char** argv) {
    pthread_t other;
    for (unsigned i = 0; i < sizeof bytes; i += 64) bytes[i] = 1;
    if (argc > 1 && strcmp(argv[1], "many") == 0) {
        pthread_barrier_init(&together, NULL, 51);
        for (int i = 0; i < 50; ++i) pthread_create(&other, NULL, end_together, NULL);
        end_together(NULL);
    }
    if (argc > 1 && strcmp(argv[1], "none") == 0) {
        syscall(SYS_clone, CLONE_VM | CLONE_THREAD, bytes + sizeof bytes, NULL, NULL, NULL);
        return 7;
    }
    if (argc > 1) {
        pthread_create(&other, NULL, end_later, NULL);
        if (strcmp(argv[1], "another") == 0) usleep(100000);
    }
    return (int)syscall(SYS_exit, argc > 1 ? 8 : 7);
}
