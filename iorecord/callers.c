#define _GNU_SOURCE
#include "iorecord/callers.h"

#include <stddef.h>

#include "hooks/calling_library.h"

#define EXPORT __attribute__((visibility("default")))

/* All these functions take up to six whole numbers or pointers, in registers, and return one. */
typedef long function(long, long, long, long, long, long);

enum caller {
    CALLER_NONE,
#define NUMBER(name) CALLER_##name,
    CALLERS(NUMBER)
#undef NUMBER
        CALLER_COUNT
};

static const char* const NAMES[] = {NULL,
#define NAME(name) #name,
                                    CALLERS(NAME)
#undef NAME
};

static _Thread_local __attribute__((tls_model("initial-exec"))) uint8_t now;

uint8_t caller_now(void) { return now; }

/* ISO C has no conversion between pointers to data and to functions. */
static function* as_function(void* symbol) { return __extension__(function*) symbol; }

void caller_left(void) {
    now = CALLER_NONE;
    enter_function(NULL);
}

static long called(enum caller caller, const void* from, const void* wrapper, long a, long b,
                   long c, long d, long e, long f) {
    function* const next = as_function(next_function(NAMES[caller], from, wrapper));
    if (next == NULL) return -1; /* the program found a function by name that no library has */
    const uint8_t outer = now;
    if (outer == CALLER_NONE) now = (uint8_t)caller;
    const void* const inside = enter_function((const void*)(uintptr_t)next);
    const long result = next(a, b, c, d, e, f);
    enter_function(inside);
    now = outer;
    return result;
}

#define CODE(function) ((const void*)(uintptr_t)(function))

/* The wrapper itself is local, as in hooks/mpi_calls.c. */
#define WRAP(name)                                                                               \
    __attribute__((used)) static long wrap_##name(long a, long b, long c, long d, long e,        \
                                                  long f) {                                      \
        return called(CALLER_##name, __builtin_return_address(0), CODE(wrap_##name), a, b, c, d, \
                      e, f);                                                                     \
    }                                                                                            \
    extern EXPORT long name(long a, long b, long c, long d, long e, long f)                      \
        __attribute__((alias("wrap_" #name)));
CALLERS(WRAP)
