/*
 * Handlers of errors can leave a function of MPI-IO or HDF5 by longjmp(3). What the program does
 * afterwards is not done in that function any more.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <setjmp.h>

#include "iorecord/callers.h"

_Noreturn void __longjmp_chk(jmp_buf, int);

/* clang-format off */
#define NEXT_FUNCTIONS(DO) DO(longjmp) DO(_longjmp) DO(siglongjmp) DO(__longjmp_chk)
/* clang-format on */
#include "hooks/next_functions.h"

/* A handler of signals may jump, and cannot look for functions. */
__attribute__((constructor)) static void begin(void) { resolve(); }

#define JUMP(name)                                                            \
    __attribute__((visibility("default"))) void name(jmp_buf at, int value) { \
        if (!usable()) resolve();                                             \
        caller_left();                                                        \
        real.name(at, value);                                                 \
        __builtin_unreachable();                                              \
    }
JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)
