/* A thread moves pages away by mremap(), and another one gets their addresses as soon as they are
 * free. The second thread executes few instructions until then. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TIMES = 10, BYTES = 8 << 12 };

static _Atomic(char*) moving; /* where the pages are that are about to be moved */

/* Reads memory, because a thread's instructions are stamped only between records. */
static void compute(int times) {
    static volatile char memory[1 << 20];
    for (int i = 0; i < times; i++) (void)memory[i * 64 % sizeof memory];
}

static char* map(char* at, int flags) {
    return mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

static void* follow(void* unused) {
    for (int i = 0; i < TIMES; i++) {
        char* at;
        while ((at = atomic_load(&moving)) == NULL) usleep(1000);
        while (map(at, MAP_FIXED_NOREPLACE) != at) sched_yield();
        compute(1000);
        memset(at, 2, BYTES);
        munmap(at, BYTES);
        atomic_store(&moving, NULL);
    }
    return unused;
}

int main(void) {
    char* const to = map(NULL, 0);
    pthread_t other;
    pthread_create(&other, NULL, follow, NULL);
    for (int i = 0; i < TIMES; i++) {
        char* const pages = map(NULL, 0);
        memset(pages, 1, BYTES);
        compute(100000);
        atomic_store(&moving, pages);
        mremap(pages, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        while (atomic_load(&moving) != NULL) sched_yield();
    }
    pthread_join(other, NULL);
    return 0;
}
