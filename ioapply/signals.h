/* Lets signals wait, as the kernel lets them wait while it writes to a file. */
#ifndef PAGELENS_IOAPPLY_SIGNALS_H
#define PAGELENS_IOAPPLY_SIGNALS_H

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Both masks have the kernel's size. The C library's own signals wait too. */
static inline uint64_t hold_signals(void) {
    const uint64_t all = ~(uint64_t)0;
    uint64_t before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    return before;
}

static inline void let_signals(uint64_t before) {
    const int saved_errno = errno;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    errno = saved_errno;
}

#endif
