/* Writes files in ways that a library beneath write(2) can get wrong, and prints what it sees.
 * Usage: io_apply FOLDER WAY */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, RECORD = 2 * MIB, TIMES = 6 };

static char path[4096];
static int file;
static int small_count;

static int opened(int flags) { return open(path, O_RDWR | O_CREAT | flags, 0600); }

static void told(const char* what, ssize_t result) {
    printf("%s %zd errno %d at %ld\n", what, result, result < 0 ? errno : 0,
           (long)lseek(file, 0, SEEK_CUR));
}

/* A buffer that is not aligned, all of one letter. */
static char* filled(char letter, size_t size) {
    char* block = malloc(size + 65);
    memset(block, letter, size + 65);
    return block + 1;
}

static void plain(void) {
    for (int i = 0; i < 3; i++) told("write", write(file, filled('a' + i, RECORD), RECORD));
    told("write", write(file, filled('x', MIB), MIB + 17));
    told("write", write(file, filled('y', MIB), MIB));
    told("pwrite", pwrite(file, filled('z', MIB), MIB, 16 * MIB));
    told("pwrite", pwrite(file, filled('p', MIB), MIB + 5, 20 * MIB + 3));
    told("pwrite", pwrite(file, filled('h', MIB), MIB, 21 * MIB + 512)); /* a part of a page */
    void* aligned = aligned_alloc(4096, RECORD);
    memset(aligned, 'q', RECORD);
    told("seek", lseek(file, 0, SEEK_END) & 1);
    told("seek", lseek(file, 24 * MIB, SEEK_SET) & 1);
    told("write", write(file, aligned, RECORD));
    told("fsync", fsync(file));
}

static void append(void) {
    const int second = opened(O_APPEND);
    file = opened(O_APPEND);
    for (int i = 0; i < 3; i++) {
        told("write", write(file, filled('a', RECORD), RECORD));
        told("write", write(second, filled('b', RECORD), RECORD));
    }
    const int plain_one = opened(0);
    fcntl(plain_one, F_SETFL, O_APPEND);
    told("write", write(plain_one, filled('c', RECORD), RECORD));
}

static void synchronous(void) {
    file = opened(O_DSYNC);
    told("write", write(file, filled('a', RECORD), RECORD));
}

static void two(void) {
    const int second = opened(0);
    char* back = malloc(RECORD);
    for (int i = 0; i < TIMES; i++) {
        char* block = filled('a' + i, RECORD);
        pwrite(second, "old", 3, (off_t)i * RECORD + 5000); /* a dirty page beneath */
        told("write", write(file, block, RECORD));
        told("read", pread(second, back, RECORD, (off_t)i * RECORD));
        told("same", memcmp(block, back, RECORD) == 0);
    }
}

static void mapped(void) {
    ftruncate(file, 2 * RECORD);
    char* memory = mmap(NULL, 2 * RECORD, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(memory, 'm', 2 * RECORD);
    char* block = filled('w', RECORD);
    told("write", write(file, block, RECORD));
    told("same", memcmp(memory, block, RECORD) == 0 && memory[RECORD] == 'm');
}

static void small_one(int number) {
    (void)number;
    char record[16];
    memset(record, 's', sizeof record);
    small_count += write(file, record, sizeof record) == sizeof record;
}

/* Prints whether the file is made of whole records: of one letter each, and 16 times 's'. */
static void whole_records(void) {
    struct stat info;
    fstat(file, &info);
    char* all = malloc((size_t)info.st_size + 1);
    pread(file, all, (size_t)info.st_size, 0);
    long at = 0, large = 0, small = 0;
    while (at < info.st_size) {
        const long size = all[at] == 's' ? 16 : RECORD;
        long same = 0;
        while (all[at] && same < size && at + same < info.st_size && all[at + same] == all[at])
            same++;
        if (same < size) break;
        at += size;
        if (size == 16)
            small++;
        else
            large++;
    }
    printf("%ld large records, small ones all %d, rest %ld, at the end %d\n", large,
           small == small_count, (long)info.st_size - at, lseek(file, 0, SEEK_CUR) == info.st_size);
}

static void handler(void) {
    struct sigaction action = {.sa_handler = small_one, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    char* block = filled('L', RECORD);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 10; i++)
        if (write(file, block, RECORD) != RECORD) abort();
    setitimer(ITIMER_REAL, &never, NULL);
    whole_records();
}

static void records_of(char letter) {
    char* block = filled(letter, RECORD);
    for (int i = 0; i < TIMES; i++)
        if (write(file, block, RECORD) != RECORD) abort();
}

static void forked(void) {
    records_of('a');
    const pid_t child = fork();
    records_of(child ? 'b' : 'c');
    if (!child) _exit(0);
    waitpid(child, NULL, 0);
    whole_records();
}

static void* thread_of(void* letter) {
    records_of(*(char*)letter);
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    char letters[4] = {'a', 'b', 'c', 'd'};
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, thread_of, &letters[i]);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    whole_records();
}

static void killed(void) {
    records_of('k');
    kill(getpid(), SIGKILL);
}

static void limited(void) {
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit most = {3 * MIB + 1000, 3 * MIB + 1000};
    setrlimit(RLIMIT_FSIZE, &most);
    for (int i = 0; i < 3; i++) told("write", write(file, filled('a' + i, RECORD), RECORD));
}

/* The kernel makes a write shorter that crosses the limit, and signals only the next one. */
static void limit_within(void) {
    const struct rlimit most = {4 * MIB, 4 * MIB};
    setrlimit(RLIMIT_FSIZE, &most);
    told("write", write(file, filled('a', 6 * MIB), 6 * MIB));
}

static void locks(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    told("lock", fcntl(file, F_SETLK, &lock));
    const int second = opened(0);
    told("write", write(second, filled('a', RECORD), RECORD));
    const pid_t child = fork();
    if (!child) {
        fcntl(file, F_GETLK, &lock);
        _exit(lock.l_type == F_WRLCK);
    }
    int status;
    waitpid(child, &status, 0);
    told("locked", WEXITSTATUS(status));
}

static void memory_ends(void) {
    char* memory =
        mmap(NULL, 2 * RECORD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 'e', 2 * RECORD);
    munmap(memory + RECORD, RECORD);
    told("write", write(file, memory + RECORD / 2, RECORD) > 0);
    told("write", write(file, memory + RECORD + 1, RECORD));
}

static void reused(void) {
    records_of('a');
    char other_path[4200];
    snprintf(other_path, sizeof other_path, "%s-other", path);
    const int other = open(other_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    printf("numbers %d %d\n", file, other);
    dup2(other, file);
    told("write", write(file, filled('o', RECORD), RECORD));
    close(file);
    printf("number %d\n", open(other_path, O_WRONLY));
}

/* Closes all numbers but its own, as daemons do, and opens another file. */
static void daemon_like(void) {
    records_of('a');
    for (int number = 3; number < 2000; number++)
        if (number != file) close(number);
    char other_path[4200];
    snprintf(other_path, sizeof other_path, "%s-other", path);
    const int other = open(other_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    told("other", write(other, filled('o', RECORD), RECORD));
    told("write", write(file, filled('b', RECORD), RECORD));
    close(file);
    told("other", write(other, filled('p', RECORD), RECORD));
}

/* A number that the program takes for itself stays its own. */
static void taken(void) {
    records_of('a');
    char other_path[4200];
    snprintf(other_path, sizeof other_path, "%s-other", path);
    const int other = open(other_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int number = 800; number < 1000; number++) dup2(other, number);
    told("write", write(file, filled('b', RECORD), RECORD));
    close(file);
    for (int number = 800; number < 1000; number++)
        if (write(number, "x", 1) != 1) printf("number %d is closed\n", number);
}

/* After fclose nobody has the file open for writing, which a lease for reading needs. */
static void stream(void) {
    FILE* own = fopen(path, "w");
    close(file);
    told("write", write(fileno(own), filled('a', RECORD), RECORD) != RECORD);
    fclose(own);
    file = open(path, O_RDONLY);
    told("lease", fcntl(file, F_SETLEASE, F_RDLCK));
}

static void* write_until_cancelled(void* started) {
    char* block = filled('c', RECORD);
    for (;;) {
        pwrite(file, block, RECORD, 0);
        __atomic_store_n((int*)started, 1, __ATOMIC_RELEASE);
    }
}

static void cancelled(void) {
    int started = 0;
    void* result;
    pthread_t thread;
    pthread_create(&thread, NULL, write_until_cancelled, &started);
    while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE)) usleep(100);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    told("cancelled", result == PTHREAD_CANCELED);
}

static sigjmp_buf back_to_it;
static volatile sig_atomic_t jumps;

static void jump(int number) {
    (void)number;
    jumps++;
    siglongjmp(back_to_it, 1);
}

/* A handler that jumps out of a write finds all of it written, or nothing. */
static void jumped(void) {
    struct sigaction action = {.sa_handler = jump};
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval often = {{0, 900}, {0, 900}}, never = {{0, 0}, {0, 0}};
    char* block = filled('J', RECORD);
    sigsetjmp(back_to_it, 1);
    setitimer(ITIMER_REAL, jumps < 20 ? &often : &never, NULL);
    while (jumps < 20)
        if (write(file, block, RECORD) != RECORD) abort();
    whole_records();
}

static void fill(void) {
    long total = 0;
    for (;;) {
        const ssize_t wrote = write(file, filled('f', RECORD), RECORD);
        if (wrote <= 0) break;
        total += wrote;
    }
    struct stat info;
    const int error = errno;
    fstat(file, &info);
    printf("errno %d, the file has what was written: %d, the position %d\n", error,
           info.st_size == total, lseek(file, 0, SEEK_CUR) == total);
}

int main(int count, char** words) {
    static const struct {
        const char* name;
        void (*run)(void);
    } ways[] = {{"plain", plain},
                {"append", append},
                {"synchronous", synchronous},
                {"two", two},
                {"mapped", mapped},
                {"handler", handler},
                {"forked", forked},
                {"threads", threads},
                {"killed", killed},
                {"limited", limited},
                {"limit_within", limit_within},
                {"locks", locks},
                {"memory_ends", memory_ends},
                {"reused", reused},
                {"daemon_like", daemon_like},
                {"taken", taken},
                {"stream", stream},
                {"cancelled", cancelled},
                {"jumped", jumped},
                {"fill", fill}};
    if (count < 3) return 2;
    snprintf(path, sizeof path, "%s/file", words[1]);
    file = opened(O_TRUNC);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, words[2]) == 0) ways[i].run();
    return 0;
}
