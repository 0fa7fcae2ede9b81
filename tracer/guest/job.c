/*
 * Runs a program as a phase of the lab: marks where it begins and ends, and learns which frames it
 * held when it held most.
 *
 * Memory is given back by few system calls and by processes that end. A filter stops the program
 * before each of these; if it then holds more than at the last look, its page tables are read. So
 * the fullest moment is not missed, and a program that only computes is never stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hooks/pagelens_lab.h"
#include "tracer/guest/tools.h"

enum { PAGE_BYTES = 4096, MOST_TASKS = 4096, PAGEMAP_WORDS = 4096, LARGE_FRAMES = 512 };

#define PAGEMAP_PRESENT (UINT64_C(1) << 63) /* Documentation/admin-guide/mm/pagemap.rst */
#define PAGEMAP_FILE (UINT64_C(1) << 61)
#define PAGEMAP_FRAME ((UINT64_C(1) << 55) - 1)
#define FLAGS_LARGE (UINT64_C(1) << 17 | UINT64_C(1) << 22) /* likewise: HUGE, THP */

struct task {
    pid_t id;
    pid_t process;
    int known; /* it had the stop that it begins with */
};

static struct task tasks[MOST_TASKS];
static size_t task_count;

static uint8_t* held;       /* the bitmap of the fullest moment */
static uint8_t* large;      /* another: frames at multiples of LARGE_FRAMES, if of large pages */
static size_t held_bytes;   /* of each */
static uint64_t held_pages; /* what the processes said they held then */
static uint64_t zero_frame;

static uint64_t frame_of(const void* address) {
    uint64_t word = 0;
    const int pagemap = open("/proc/self/pagemap", O_RDONLY);
    const off_t at = (off_t)((uintptr_t)address / PAGE_BYTES * sizeof word);
    if (pagemap < 0 || pread(pagemap, &word, sizeof word, at) != sizeof word) fail("pagemap");
    close(pagemap);
    return word & PAGEMAP_FRAME;
}

/* Memory that was only read shows the one frame of zeros, which nobody holds. */
static uint64_t find_zero_frame(void) {
    volatile char* page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) fail("mmap");
    (void)*page;
    return frame_of((const void*)page);
}

static FILE* open_of(pid_t process, const char* what) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process, what);
    return fopen(path, "r");
}

/* A field of /proc/PID/status; 0 if the process is gone. */
static uint64_t status_of(pid_t process, const char* field) {
    FILE* status = open_of(process, "status");
    uint64_t value = 0;
    char line[256];
    const size_t length = strlen(field);
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, field, length) == 0) value += strtoull(line + length, NULL, 10);
    }
    if (status != NULL) fclose(status);
    return value;
}

static uint64_t pages_of(pid_t process) {
    return (status_of(process, "VmRSS:") + status_of(process, "HugetlbPages:")) * 1024 / PAGE_BYTES;
}

static void mark(uint64_t frame) {
    if (frame / 8 >= held_bytes) {
        const size_t bytes = frame / 8 + (1 << 16);
        held = realloc(held, bytes);
        large = realloc(large, bytes);
        if (held == NULL || large == NULL) fail("realloc");
        memset(held + held_bytes, 0, bytes - held_bytes);
        memset(large + held_bytes, 0, bytes - held_bytes);
        held_bytes = bytes;
    }
    held[frame / 8] |= (uint8_t)(1 << frame % 8);
}

/* Whether a line of /proc/PID/maps is of a file whose pages the page cache holds, not the program.
 * Memory that processes share looks like a file too, in /dev/shm or with its name removed. */
static int is_of_file(const char* line) {
    const char* const path = strchr(line, '/');
    return path != NULL && strncmp(path, "/dev/", 5) != 0 && strstr(path, "(deleted)") == NULL;
}

static void mark_range(int pagemap, uint64_t begin, uint64_t end, int of_file) {
    static uint64_t words[PAGEMAP_WORDS];
    for (uint64_t page = begin / PAGE_BYTES; page < end / PAGE_BYTES;) {
        const uint64_t left = end / PAGE_BYTES - page;
        const size_t wanted = left < PAGEMAP_WORDS ? (size_t)left : PAGEMAP_WORDS;
        const ssize_t got =
            pread(pagemap, words, wanted * sizeof *words, (off_t)(page * sizeof *words));
        if (got <= 0) return; /* the kernel's own page at the end of the address space */
        const size_t count = (size_t)got / sizeof *words;
        for (size_t i = 0; i < count; ++i) {
            const uint64_t frame = words[i] & PAGEMAP_FRAME;
            const int cached = of_file && (words[i] & PAGEMAP_FILE) != 0; /* else a private copy */
            if (words[i] & PAGEMAP_PRESENT && frame != zero_frame && !cached) mark(frame);
        }
        page += count;
    }
}

/* Small pages may fill 2 MiB too: only the kernel knows which are large. */
static void mark_large(void) {
    const int flags = open("/proc/kpageflags", O_RDONLY);
    if (flags < 0) fail("kpageflags");
    for (uint64_t frame = 0; frame / 8 < held_bytes; frame += LARGE_FRAMES) {
        uint64_t word = 0;
        if ((held[frame / 8] & 1) == 0) continue;
        const ssize_t got = pread(flags, &word, sizeof word, (off_t)(frame * sizeof word));
        if (got == sizeof word && word & FLAGS_LARGE) large[frame / 8] = 1; /* else a device's */
    }
    close(flags);
}

static int is_first_of_process(size_t task) {
    for (size_t i = 0; i < task; ++i) {
        if (tasks[i].process == tasks[task].process) return 0;
    }
    return 1;
}

/* If the program holds more than ever, notes which frames. A little more is not worth the work. */
static void look(void) {
    uint64_t pages = 0;
    for (size_t i = 0; i < task_count; ++i) {
        if (is_first_of_process(i)) pages += pages_of(tasks[i].process);
    }
    if (pages <= held_pages + held_pages / 128) return;
    pagelens_lab_ring(PAGELENS_LAB_PAUSE, NULL, 0);
    held_pages = pages;
    memset(held, 0, held_bytes);
    memset(large, 0, held_bytes);
    for (size_t i = 0; i < task_count; ++i) {
        FILE* maps = is_first_of_process(i) ? open_of(tasks[i].process, "maps") : NULL;
        FILE* pagemap = maps != NULL ? open_of(tasks[i].process, "pagemap") : NULL;
        char line[512];
        unsigned long begin, end;
        while (pagemap != NULL && fgets(line, sizeof line, maps) != NULL) {
            if (sscanf(line, "%lx-%lx", &begin, &end) == 2) {
                mark_range(fileno(pagemap), begin, end, is_of_file(line));
            }
        }
        if (pagemap != NULL) fclose(pagemap);
        if (maps != NULL) fclose(maps);
    }
    mark_large();
    pagelens_lab_ring(PAGELENS_LAB_RESUME, NULL, 0);
}

static struct task* task_of(pid_t id) {
    for (size_t i = 0; i < task_count; ++i) {
        if (tasks[i].id == id) return &tasks[i];
    }
    if (task_count == MOST_TASKS) {
        errno = EAGAIN;
        fail("job: too many threads");
    }
    tasks[task_count] = (struct task){id, (pid_t)status_of(id, "Tgid:"), 0};
    return &tasks[task_count++];
}

static void forget(pid_t id) {
    struct task* task = task_of(id);
    *task = tasks[--task_count];
}

/* In the child: stops, by SECCOMP_RET_TRACE, before every call that gives memory back. */
static void filter_calls(void) {
    static const unsigned short calls[] = {SYS_munmap,  SYS_brk,    SYS_mremap,
                                           SYS_madvise, SYS_execve, SYS_exit_group};
    enum { CALLS = sizeof calls / sizeof *calls };
    struct sock_filter code[CALLS + 3];
    code[0] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < CALLS; ++i) {
        code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i],
                                                   (unsigned char)(CALLS - i), 0);
    }
    code[CALLS + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[CALLS + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    const struct sock_fprog program = {CALLS + 3, code};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) fail("seccomp");
}

static pid_t start(char** command) {
    const pid_t child = fork();
    if (child < 0) fail("fork");
    if (child > 0) return child;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0) fail("ptrace");
    raise(SIGSTOP);
    filter_calls();
    execvp(command[0], command);
    fprintf(stderr, "%s: %s\n", command[0], strerror(errno));
    _exit(127);
}

int job(int argc, char** argv) {
    if (argc < 3) {
        errno = EINVAL;
        fail("job");
    }
    const char* phase = argv[1];
    zero_frame = find_zero_frame();
    const pid_t child = start(argv + 2);
    int status = 0, first = 0, began = 0;
    waitpid(child, &first, 0);
    task_of(child)->known = 1;
    const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEEXIT |
                         PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                         PTRACE_O_TRACECLONE;
    if (ptrace(PTRACE_SETOPTIONS, child, NULL, options) < 0) fail("ptrace");
    ptrace(PTRACE_CONT, child, NULL, NULL);
    while (task_count > 0) {
        int what = 0;
        const pid_t id = waitpid(-1, &what, __WALL);
        if (id < 0 && errno == EINTR) continue;
        if (id < 0) break;
        if (!WIFSTOPPED(what)) {
            forget(id);
            if (id == child) status = what;
            continue;
        }
        struct task* task = task_of(id);
        const int event = what >> 16;
        long deliver = 0;
        if (event == PTRACE_EVENT_EXEC) {
            task->process = id;
            if (!began && *phase) pagelens_lab_ring(PAGELENS_LAB_BEGIN, phase, strlen(phase));
            began = 1;
        } else if (event == PTRACE_EVENT_SECCOMP || event == PTRACE_EVENT_EXIT) {
            if (began) look();
        } else if (event == 0) {
            if (task->known || WSTOPSIG(what) != SIGSTOP) deliver = WSTOPSIG(what);
        }
        task->known = 1;
        ptrace(PTRACE_CONT, id, NULL, deliver);
    }
    if (began && *phase) pagelens_lab_ring(PAGELENS_LAB_END, NULL, 0);
    hand_over(held, held_bytes);
    hand_over(large, held_bytes);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
