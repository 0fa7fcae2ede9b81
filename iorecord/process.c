/* Begins the log when the library is loaded, and says when the process begins and ends. */
#define _GNU_SOURCE
#include "iorecord/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "iorecord/files.h"
#include "iorecord/log.h"
#include "iorecord/stdio_hooks.h"

static pid_t own;

/* The variables of MPI launchers for a process's rank: Open MPI, MPICH and its kin, PMIx, Slurm. */
static const char* const RANKS[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                    "SLURM_PROCID"};

bool in_own_process(void) { return getpid() == own; }

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void record_process(enum record_kind kind) {
    char program[MOST_TEXT];
    struct rusage used;
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    struct record record = {.start_ns = clock_ns(CLOCK_MONOTONIC)};
    record.PROCESS_REAL_NS = clock_ns(CLOCK_REALTIME);
    record.PROCESS_CPU_NS = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    record.PROCESS_PARENT = getppid();
    record.PROCESS_RANK = -1;
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        record.PROCESS_MINOR_FAULTS = (uint64_t)used.ru_minflt;
        record.PROCESS_MAJOR_FAULTS = (uint64_t)used.ru_majflt;
    }
    for (size_t i = 0; i < sizeof RANKS / sizeof *RANKS; i++) {
        const char* rank = getenv(RANKS[i]);
        if (rank && *rank) {
            record.PROCESS_RANK = atoi(rank);
            break;
        }
    }
    log_with_text(kind, &record, program);
}

static void begin_in_child(void) {
    own = getpid();
    files_forked();
    record_process(KIND_BEGIN);
}

__attribute__((constructor)) static void begin(void) {
    const int saved_errno = errno;
    const char* folder = getenv("PAGELENS_IO");
    if (folder && *folder) {
        own = getpid();
        log_forked = begin_in_child;
        log_open(folder);
        if (log_is_open()) {
            record_process(KIND_BEGIN);
            stdio_hooked();
        }
    }
    errno = saved_errno;
}

__attribute__((destructor)) static void end(void) {
    if (log_is_open() && in_own_process()) record_process(KIND_END);
}
