/*
 * For programs that clang compiles for tracing with -flto (`pagelens compile-flags clang-lto`).
 * Each source file includes this one, and then the test that hides most accesses becomes part of
 * the program's own code. Other programs call a function of a library at each access. The traces
 * are the same, but without a tracer this program is nearly as fast as one that was compiled as
 * usual.
 *
 * The test is that of `Strip::hides` (core/accesses/strip.hpp). tracer/compiled/accesses.cpp checks
 * that the fields lie where this file says.
 */
#if !defined(PAGELENS_INLINE_H) && !defined(__ASSEMBLER__)
#define PAGELENS_INLINE_H

#ifdef __cplusplus
extern "C" {
#endif

struct pagelens_strip {
    struct {
        unsigned long line[2][2]; /* by kind (1: stored to) and way */
        unsigned long used[2];    /* by way */
        unsigned long others[2];
    } sets[64];
    unsigned long others[145];
    unsigned long clock;
};

#ifndef PAGELENS_LAYOUT_ALONE /* the tracer itself defines the functions below */

/* Libraries of pagelens define these. The first is null while nothing of the thread is recorded,
 * the second is 0 if the program is not traced at all. */
extern __thread struct pagelens_strip* pagelens_thread __attribute__((tls_model("initial-exec")));
extern int pagelens_listens;
void pagelens_pass(void* p, unsigned bytes, unsigned store);
void pagelens_pass_first(void* p, unsigned bytes, unsigned store);

/* The calls have no line of the source, so these functions must have no debug information. */
#define PAGELENS_PLAIN __attribute__((no_sanitize("thread"), nodebug))

/* Time passes by one for each 8 bytes. */
PAGELENS_PLAIN __attribute__((always_inline)) static inline void pagelens_touch(void* p,
                                                                                unsigned bytes,
                                                                                unsigned store) {
    struct pagelens_strip* const strip = pagelens_thread;
    const unsigned long address = (unsigned long)p, reach = 64 - bytes;
    const unsigned long set = address / 64 % 64;
    unsigned long clock;
    unsigned second, either;
    if (strip == 0) {
        if (__builtin_expect(pagelens_listens, 0)) pagelens_pass_first(p, bytes, store);
        return;
    }
    clock = strip->clock += bytes <= 8 ? 1 : bytes / 8;
    second = address - strip->sets[set].line[store][1] <= reach;
    either = second | (address - strip->sets[set].line[store][0] <= reach);
    __asm__("" : "+r"(either)); /* one branch, not two */
    if (__builtin_expect(either == 0, 0)) {
        pagelens_pass(p, bytes, store);
        return;
    }
    strip->sets[set].used[second] = clock;
}

#define PAGELENS_HOOK(name, bytes, store)                                                         \
    PAGELENS_PLAIN __attribute__((weak, visibility("hidden"), always_inline)) void name(void* p); \
    void name(void* p) { pagelens_touch(p, bytes, store); }
#define PAGELENS_HOOKS(bytes)                             \
    PAGELENS_HOOK(__tsan_read##bytes, bytes, 0)           \
    PAGELENS_HOOK(__tsan_write##bytes, bytes, 1)          \
    PAGELENS_HOOK(__tsan_unaligned_read##bytes, bytes, 0) \
    PAGELENS_HOOK(__tsan_unaligned_write##bytes, bytes, 1)
PAGELENS_HOOKS(1)
PAGELENS_HOOKS(2)
PAGELENS_HOOKS(4)
PAGELENS_HOOKS(8)
PAGELENS_HOOKS(16)

#endif

#ifdef __cplusplus
}
#endif
#endif
