/* Writes files in ways that a library beneath write(2) can get wrong, and prints what it sees.
 * Usage: io_apply FOLDER WAY
 * With the variable MAGIC, its file systems are of that kind. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, RECORD = 2 * MIB, TIMES = 6 };

static char path[4096];
static int file;
static int small_count;

/* What a library that is preloaded calls, too, if this is linked with -rdynamic. */
int fstatfs(int of, struct statfs* system) {
    const char* magic = getenv("MAGIC");
    const int status = syscall(SYS_fstatfs, of, system);
    if (magic) system->f_type = strtol(magic, NULL, 0);
    return status;
}

static int opened(int flags) { return open(path, O_RDWR | O_CREAT | flags, 0600); }

static void records_of(char letter);

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

/* Locks of fcntl stay across exec. The child tells, once the new program runs. */
static void exec_locks(void) {
    int pipe_ends[2];
    char number[16], byte;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    told("write", write(file, filled('a', RECORD), RECORD));
    told("lock", fcntl(file, F_SETLK, &lock));
    told("write", write(file, filled('b', RECORD), RECORD));
    fflush(stdout);
    pipe(pipe_ends);
    if (!fork()) {
        close(pipe_ends[1]);
        read(pipe_ends[0], &byte, 1);
        fcntl(file, F_GETLK, &lock);
        _exit(lock.l_type == F_WRLCK);
    }
    snprintf(number, sizeof number, "%d", pipe_ends[1]);
    setenv("PIPE", number, 1);
    *strrchr(path, '/') = 0;
    execl("/proc/self/exe", "io_apply", path, "after_exec", NULL);
}

static void after_exec(void) {
    int status;
    close(atoi(getenv("PIPE")));
    wait(&status);
    printf("locked %d\n", WEXITSTATUS(status));
    exit(0);
}

/* Nobody else may have the file open while it has a lease for writing. */
static void leased(void) {
    told("write", write(file, filled('a', RECORD), RECORD));
    told("lease", fcntl(file, F_SETLEASE, F_WRLCK));
    told("write", write(file, filled('b', RECORD), RECORD));
    told("unlease", fcntl(file, F_SETLEASE, F_UNLCK));
}

static void* lock_often(void* stop) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    while (!__atomic_load_n((int*)stop, __ATOMIC_ACQUIRE)) {
        lock.l_type = lock.l_type == F_WRLCK ? F_UNLCK : F_WRLCK;
        if (fcntl(file, F_SETLK, &lock)) abort();
    }
    return NULL;
}

/* Locks come and go while another thread writes, and other files are opened and closed. */
static void lock_race(void) {
    int stop = 0;
    pthread_t thread;
    char name[4200];
    pthread_create(&thread, NULL, lock_often, &stop);
    for (int i = 0; i < TIMES; i++) {
        snprintf(name, sizeof name, "%s-%d", path, i);
        const int other = open(name, O_RDWR | O_CREAT, 0600);
        told("other", write(other, filled('A' + i, RECORD), RECORD));
        told("write", write(file, filled('a' + i, RECORD), RECORD));
        close(other);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

/* Destructors run after those of the library. One maps memory where its buffer was. */
static void at_thread_end(void* block) {
    char* memory = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 'm', 4 * MIB);
    told("write", write(file, block, RECORD));
    int same = 1;
    for (int i = 0; i < 4 * MIB; i++) same &= memory[i] == 'm';
    told("same", same);
}

static void* write_and_end(void* key) {
    pthread_setspecific(*(pthread_key_t*)key, filled('d', RECORD));
    told("write", write(file, filled('t', RECORD), RECORD));
    return NULL;
}

static void destructor(void) {
    pthread_t thread;
    pthread_key_t key;
    pthread_key_create(&key, at_thread_end);
    pthread_create(&thread, NULL, write_and_end, &key);
    pthread_join(thread, NULL);
}

/* Installs a filter that kills the program for calls that it does not make by itself. */
static void sandboxed(void) {
    records_of('a');
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    told("filter", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
    told("write", write(file, filled('b', RECORD), RECORD));
    close(file);
    file = open(path, O_WRONLY);
    told("write", write(file, filled('c', RECORD), RECORD));
}

extern char** environ;

/* Children that share this process's memory, but not its descriptors. */
static void spawned(void) {
    char* block = filled('v', RECORD);
    records_of('a');
    if (vfork() == 0) {
        write(file, block, RECORD);
        close(file);
        _exit(0);
    }
    wait(NULL);
    told("write", write(file, filled('b', RECORD), RECORD));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file, 1);
    posix_spawn_file_actions_addclose(&actions, file);
    char* words[] = {"sh", "-c", "head -c 2097152 /dev/zero", NULL};
    pid_t child;
    const int failed = posix_spawn(&child, "/bin/sh", &actions, NULL, words, environ);
    waitpid(child, NULL, 0);
    told("spawn", failed);
    told("write", write(file, filled('c', RECORD), RECORD));
}

/* Other ways to the same file, which leave pages in the page cache. */
static void copied(void) {
    char from_path[4200];
    int pipe_ends[2];
    loff_t at = 5 * MIB + 100;
    snprintf(from_path, sizeof from_path, "%s-from", path);
    const int from = open(from_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    told("write", write(from, filled('f', RECORD), RECORD));
    lseek(from, 0, SEEK_SET);
    records_of('a');
    told("sendfile", sendfile(file, from, NULL, MIB));
    told("write", pwrite(file, filled('b', RECORD), RECORD, 12 * MIB));
    told("copy", copy_file_range(from, NULL, file, &at, 512 << 10, 0));
    pipe(pipe_ends);
    told("in", splice(from, NULL, pipe_ends[1], NULL, 65536, 0));
    told("out", splice(pipe_ends[0], NULL, file, NULL, 65536, 0));
    told("write", write(file, filled('c', RECORD), RECORD));
    told("write", pwrite(file, filled('d', RECORD), RECORD, 4 * MIB));
    told("write", write(from, filled('g', RECORD), RECORD));
}

static void unnamed(void) {
    char name[64];
    *strrchr(path, '/') = 0;
    file = open(path, O_TMPFILE | O_RDWR, 0600);
    records_of('a');
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    strcat(path, "/linked");
    told("link", linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW));
    told("write", write(file, filled('b', RECORD), RECORD));
    fchmod(file, 0400);
    const int second = open(path, O_RDONLY);
    told("write", write(second, filled('c', RECORD), RECORD));
}

static void resized(void) {
    records_of('a');
    told("shorter", ftruncate(file, 3 * MIB + 100));
    told("write", write(file, filled('b', RECORD), RECORD));
    told("hole", fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, MIB + 5, 2 * MIB));
    told("write", pwrite(file, filled('c', RECORD), RECORD, 2 * MIB));
    told("ahead", fallocate(file, FALLOC_FL_KEEP_SIZE, 14 * MIB, 8 * MIB));
    told("write", write(file, filled('d', RECORD), RECORD));
    told("ahead", fallocate(file, 0, 20 * MIB, 4 * MIB));
    told("write", write(file, filled('e', MIB), MIB));
    told("zeros", fallocate(file, FALLOC_FL_ZERO_RANGE, 12 * MIB, 3 * MIB));
    told("write", pwrite(file, filled('f', RECORD), RECORD, 13 * MIB));
}

/* The number of the file is another file's, by way of dup3 and freopen. */
static void renumbered(void) {
    char other_path[4200];
    snprintf(other_path, sizeof other_path, "%s-other", path);
    const int other = open(other_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    records_of('a');
    told("dup3", dup3(other, file, O_CLOEXEC) == file);
    told("write", write(file, filled('b', RECORD), RECORD));
    told("write", write(other, filled('c', RECORD), RECORD));
    FILE* own = fopen(path, "r+");
    told("write", write(fileno(own), filled('d', RECORD), RECORD));
    own = freopen(other_path, "r+", own);
    told("write", write(fileno(own), filled('e', RECORD), RECORD));
    const int reader = open(path, O_RDONLY); /* nobody has `path` open for writing now */
    told("lease", fcntl(reader, F_SETLEASE, F_RDLCK));
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

/* Large writes over data, which several threads can share. The rest is as before. */
enum { LARGE = 9 * MIB, OLD = 48 * MIB };

static void old_data(void) {
    char* block = filled('o', OLD);
    for (long at = 0; at < OLD; at += MIB / 2) pwrite(file, block + at, MIB / 2, at);
}

static void over(void) {
    old_data();
    char* aligned = aligned_alloc(4096, LARGE);
    for (int i = 0; i < LARGE; i++) aligned[i] = (char)(i / 4099);
    told("write", write(file, aligned, LARGE));
    told("pwrite", pwrite(file, aligned + 1, LARGE - 1, 12 * MIB));
    told("pwrite", pwrite(file, aligned, LARGE, 22 * MIB + 100));
    told("across the end", pwrite(file, aligned, LARGE, OLD - 4 * MIB));
    told("write", write(file, aligned, 2 * MIB + 8192));
    told("fsync", fsync(file));
}

/* The memory of the data ends within the second part, or in the first. */
static void over_memory_ends(void) {
    old_data();
    for (int first = MIB / 2; first < 6 * MIB; first += 5 * MIB) {
        char* memory =
            mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(memory, 'e', LARGE);
        mprotect(memory + first, LARGE - first, PROT_NONE);
        told("pwrite", pwrite(file, memory, LARGE, 0));
        told("pwrite", pwrite(file, memory + 1, LARGE, 16 * MIB));
    }
}

/* Only a part in the middle cannot be read. Nothing behind it is written (Linux 5.14 and later). */
static void over_memory_gap(void) {
    old_data();
    char* memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 'g', LARGE);
    mprotect(memory + 3 * MIB, MIB, PROT_NONE);
    told("pwrite", pwrite(file, memory, LARGE, 0));
    told("pwrite", pwrite(file, memory + 1, LARGE - 1, 16 * MIB));
}

static char* for_handler;

static void large_one(int number) {
    (void)number;
    small_count += pwrite(file, for_handler, 4 * MIB, 40 * MIB) == 4 * MIB;
}

/* A handler makes such writes between others, while memory is allocated. */
static void over_handler(void) {
    old_data();
    for_handler = filled('h', 4 * MIB);
    struct sigaction action = {.sa_handler = large_one, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    const struct itimerval soon = {{0, 0}, {0, 700}};
    char* block = filled('L', LARGE);
    for (int i = 0; i < 5 || small_count < 3; i++) {
        setitimer(ITIMER_REAL, &soon, NULL);
        free(malloc(1000));
        if (pwrite(file, block, LARGE, i % 4 * LARGE) != LARGE) abort();
    }
    while (small_count < 5) usleep(100);
    told("handler", small_count >= 3);
}

static void* over_thread(void* letter) {
    const char which = *(char*)letter;
    char* block = filled(which, LARGE);
    for (int i = 0; i < 4; i++)
        if (pwrite(file, block, LARGE, (which - 'a') * LARGE) != LARGE) abort();
    return NULL;
}

static void over_threads(void) {
    old_data();
    pthread_t all[4];
    char letters[4] = {'a', 'b', 'c', 'd'};
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, over_thread, &letters[i]);
    const pid_t child = fork();
    if (!child) {
        char own = 'e';
        over_thread(&own);
        _exit(0);
    }
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    int status;
    waitpid(child, &status, 0);
    told("child", status);
}

/* Each block is old or new when a write is killed, and the file is as long as before. */
static void over_killed(void) {
    old_data();
    for (int i = 0; i < 5; i++) {
        const pid_t child = fork();
        if (!child)
            for (int letter = 'a';; letter = letter == 'z' ? 'a' : letter + 1)
                pwrite(file, filled((char)letter, LARGE), LARGE, 0);
        usleep(3000 + i * 2000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    struct stat info;
    fstat(file, &info);
    char block[4096];
    long torn = 0;
    for (long at = 0; at < LARGE; at += sizeof block) {
        pread(file, block, sizeof block, at);
        for (size_t i = 1; i < sizeof block; i++) torn += block[i] != block[0] || !block[0];
    }
    printf("torn %ld, length %ld\n", torn, (long)info.st_size);
    ftruncate(file, 0); /* which letters it ends with depends on when */
}

static void fill_by(size_t size) {
    long total = 0;
    for (;;) {
        const ssize_t wrote = write(file, filled('f', size), size);
        if (wrote <= 0) break;
        total += wrote;
    }
    struct stat info;
    const int error = errno;
    fstat(file, &info);
    printf("errno %d, the file has what was written: %d, the position %d\n", error,
           info.st_size == total, lseek(file, 0, SEEK_CUR) == total);
}

static void fill(void) { fill_by(RECORD); }

static void fill_at_once(void) { fill_by(100 * MIB); }

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
                {"exec_locks", exec_locks},
                {"after_exec", after_exec},
                {"leased", leased},
                {"lock_race", lock_race},
                {"destructor", destructor},
                {"sandboxed", sandboxed},
                {"spawned", spawned},
                {"copied", copied},
                {"unnamed", unnamed},
                {"resized", resized},
                {"renumbered", renumbered},
                {"over", over},
                {"over_memory_ends", over_memory_ends},
                {"over_memory_gap", over_memory_gap},
                {"over_handler", over_handler},
                {"over_threads", over_threads},
                {"over_killed", over_killed},
                {"fill_at_once", fill_at_once},
                {"fill", fill}};
    if (count < 3) return 2;
    setvbuf(stdout, NULL, _IONBF, 0);
    snprintf(path, sizeof path, "%s/file", words[1]);
    file = opened(strcmp(words[2], "after_exec") ? O_TRUNC : 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, words[2]) == 0) ways[i].run();
    return 0;
}
