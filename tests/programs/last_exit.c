// The program's last thread ends by `exit`, not by `exit_group`. Its accesses fill buffers before.
// With an argument, this is another thread than the first, which has ended by then.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile char bytes[4 << 20];

static void* end_later(void* unused) {
    for (unsigned i = 0; i < sizeof bytes; i += 64) bytes[i] = 1;
    usleep(300000);
    syscall(SYS_exit, 7);
    return unused;
}

int main(int argc, char** argv) {
    pthread_t other;
    (void)argv;
    for (unsigned i = 0; i < sizeof bytes; i += 64) bytes[i] = 1;
    if (argc > 1) {
        pthread_create(&other, NULL, end_later, NULL);
        usleep(100000);  // DynamoRIO takes a thread that ends at once for the last one
    }
    return (int)syscall(SYS_exit, argc > 1 ? 8 : 7);
}
