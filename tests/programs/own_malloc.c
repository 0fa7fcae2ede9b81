/* An allocator of its own, which touches much memory while it holds its lock. */
#include <pthread.h>
#include <stddef.h>
#include <string.h>

enum { TABLE = 1 << 26, POOL = 1 << 27, LINE = 64, UNIT = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char pool[POOL] __attribute__((aligned(UNIT))), table[TABLE];
static size_t used;

void* malloc(size_t bytes) {
    static int looked;
    const size_t whole = (bytes + UNIT - 1) / UNIT * UNIT + UNIT;
    pthread_mutex_lock(&lock);
    if (bytes == 4321 && !looked++)
        for (int time = 0; time < 1; ++time)
            for (size_t i = 0; i < TABLE; i += LINE) ++table[i];
    char* const block = used + whole <= POOL ? pool + used : NULL;
    used += whole;
    pthread_mutex_unlock(&lock);
    if (!block) return NULL;
    *(size_t*)block = bytes;
    return block + UNIT;
}
void free(void* block) { (void)block; }
void* calloc(size_t n, size_t bytes) { return malloc(n * bytes); } /* no block is used twice */
void* realloc(void* old, size_t bytes) {
    void* const block = malloc(bytes);
    if (!block || !old) return block;
    const size_t had = ((size_t*)old)[-UNIT / (int)sizeof(size_t)];
    return memcpy(block, old, had < bytes ? had : bytes);
}

int main(void) { return malloc(4321) == NULL; }
