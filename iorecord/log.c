/*
 * Chunks are reserved on the disk before they are mapped, so that a full disk is an error here and
 * no SIGBUS later. Whatever goes wrong, records are dropped and counted, and the program goes on.
 *
 * After a fork, a child must not write to its parent's chunks. A page that the kernel wipes in
 * children tells it, whichever call made the child.
 */
#define _GNU_SOURCE
#include "iorecord/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREAD_LOCAL static _Thread_local __attribute__((tls_model("initial-exec")))

enum {
    FIRST_CHUNK = 32 << 10, /* bytes; each further one of a process is twice as large, up to: */
    LARGEST_CHUNK = 1 << 20,
    LEFT_OVER = 64, /* chunks of threads that have ended */
};
static const uint64_t MOST_BYTES = 1ull << 30; /* of a process */

struct chunk {
    struct chunk_header header;
    struct record records[];
};

enum state { CLOSED, CLOSED_FOR_GOOD, OPENING, OPEN };

static char folder[MOST_TEXT];
static int wanted;        /* log_open was called */
static int* state;        /* in a page that is wiped in children */
static unsigned lifetime; /* counts forks, so that threads do not use chunks of a parent */
static struct chunk* first;
static struct chunk* left_over[LEFT_OVER];
static uint64_t file_bytes; /* atomic */
static pthread_key_t at_exit_key;
static char path[MOST_TEXT + 64];

void (*log_forked)(void);

/* The state of the calling thread. */
THREAD_LOCAL struct {
    struct chunk* chunk;
    uint32_t used, room; /* records */
    unsigned lifetime;
    uint32_t thread;
    int growing;
} own;

static void drop(void) {
    if (first) __atomic_fetch_add(&first->header.dropped, 1, __ATOMIC_RELAXED);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Some bytes of the log file, mapped. Nothing here goes through the functions that are recorded. */
static struct chunk* map_chunk(uint64_t at, uint64_t bytes) {
    struct rlimit most;
    if (at + bytes > MOST_BYTES) return NULL;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && at + bytes > most.rlim_cur)
        return NULL; /* SIGXFSZ */
    const int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return NULL;
    struct chunk* chunk = MAP_FAILED;
    if (syscall(SYS_fallocate, file, 0, at, bytes) == 0 ||
        (errno == EOPNOTSUPP && syscall(SYS_ftruncate, file, at + bytes) == 0))
        chunk = (struct chunk*)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_POPULATE, file, at);
    syscall(SYS_close, file);
    if (chunk == MAP_FAILED) return NULL;
    memcpy(chunk->header.magic, IO_LOG_MAGIC, sizeof chunk->header.magic);
    chunk->header.version = IO_LOG_VERSION;
    chunk->header.process = (uint32_t)getpid();
    __atomic_store_n(&chunk->header.bytes, bytes, __ATOMIC_RELEASE);
    return chunk;
}

static struct chunk* new_chunk(void) {
    for (unsigned i = 0; i < LEFT_OVER; i++) {
        struct chunk* chunk = __atomic_exchange_n(&left_over[i], NULL, __ATOMIC_ACQ_REL);
        if (chunk) return chunk;
    }
    uint64_t at = __atomic_load_n(&file_bytes, __ATOMIC_RELAXED), bytes;
    do bytes = at < FIRST_CHUNK ? FIRST_CHUNK : at > LARGEST_CHUNK ? LARGEST_CHUNK : at;
    while (!__atomic_compare_exchange_n(&file_bytes, &at, at + bytes, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    return map_chunk(at, bytes);
}

/* Returns the number of records. Only a thread's last chunk has room behind them. */
static uint32_t used_of(const struct chunk* chunk, uint32_t room) {
    uint32_t used = 0;
    while (used < room && chunk->records[used].kind != KIND_NONE) used++;
    return used;
}

static bool take_chunk(void) {
    struct chunk* chunk = new_chunk();
    if (chunk == NULL) return false;
    own.room = (uint32_t)((chunk->header.bytes - sizeof chunk->header) / sizeof(struct record));
    own.used = used_of(chunk, own.room);
    own.chunk = chunk;
    return true;
}

static void release(void* chunk) {
    if (own.lifetime != lifetime || own.chunk != chunk) return;
    own.chunk = NULL;
    for (unsigned i = 0; i < LEFT_OVER; i++) {
        struct chunk* none = NULL;
        if (__atomic_compare_exchange_n(&left_over[i], &none, chunk, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return;
    }
}

static void name_file(void) {
    snprintf(path, sizeof path, "%s/%d-%llx.io", folder, (int)getpid(),
             (unsigned long long)now_ns());
}

static void begin(void) {
    lifetime++;
    memset(left_over, 0, sizeof left_over);
    file_bytes = FIRST_CHUNK;
    name_file();
    first = map_chunk(0, FIRST_CHUNK);
    left_over[0] = first;
    __atomic_store_n(state, first ? OPEN : CLOSED_FOR_GOOD, __ATOMIC_RELEASE);
}

void log_open(const char* where) {
    const long page = sysconf(_SC_PAGESIZE);
    if (strlen(where) >= sizeof folder) return;
    strcpy(folder, where);
    void* at = (void*)syscall(SYS_mmap, NULL, page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || madvise(at, (size_t)page, MADV_WIPEONFORK) != 0) return;
    if (pthread_key_create(&at_exit_key, release) != 0) return;
    state = at;
    begin();
    wanted = 1;
}

static bool open_in_child(void) {
    int expected = CLOSED;
    if (!__atomic_compare_exchange_n(state, &expected, OPENING, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false;
    const int saved_errno = errno;
    begin();
    const bool open = *state == OPEN;
    if (open && log_forked) log_forked();
    errno = saved_errno;
    return open;
}

bool log_is_open(void) {
    if (__builtin_expect(!wanted, 0)) return false;
    if (__builtin_expect(__atomic_load_n(state, __ATOMIC_ACQUIRE) == OPEN, 1)) return true;
    return *state == CLOSED && open_in_child();
}

unsigned log_lifetime(void) { return lifetime; }

static bool room_for(unsigned records) {
    if (own.lifetime != lifetime) {
        own.chunk = NULL;
        own.lifetime = lifetime;
        own.growing = 0;
        own.thread = (uint32_t)syscall(SYS_gettid);
    }
    if (own.chunk && own.used + records <= own.room) return true;
    if (own.growing) return false; /* in a signal handler that interrupted this */
    const int saved_errno = errno;
    own.growing = 1;
    bool found = take_chunk() && own.used + records <= own.room;
    if (!found) found = take_chunk() && own.used + records <= own.room;
    if (found) pthread_setspecific(at_exit_key, own.chunk);
    own.growing = 0;
    errno = saved_errno;
    return found;
}

struct record* log_take(unsigned texts) {
    if (__builtin_expect(!room_for(1 + texts), 0)) {
        drop();
        return NULL;
    }
    struct record* record = &own.chunk->records[own.used];
    own.used += 1 + texts;
    record->thread = own.thread;
    record->cpu = (uint16_t)sched_getcpu();
    record->texts = texts;
    return record;
}

void log_publish(struct record* record, enum record_kind kind) {
    __atomic_store_n(&record->kind, (uint8_t)kind, __ATOMIC_RELEASE);
}

void log_with_text(enum record_kind kind, const struct record* filled, const char* text) {
    const size_t length = strnlen(text, MOST_TEXT);
    const unsigned texts = (unsigned)((length + sizeof filled->text - 1) / sizeof filled->text);
    struct record* record = log_take(texts);
    if (record == NULL) return;
    memcpy(record->text, filled->text, sizeof record->text);
    record->texts = texts;
    for (unsigned i = 0; i < texts; i++) {
        const size_t at = i * sizeof record->text, left = length - at;
        memcpy(record[1 + i].text, text + at,
               left < sizeof record->text ? left : sizeof record->text);
        log_publish(&record[1 + i], KIND_TEXT);
    }
    log_publish(record, kind);
}
