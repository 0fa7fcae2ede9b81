/*
 * pagelens.h names parts of a program for `pagelens trace`, `place` and `run --plan`. It is one
 * header, with no library to link.
 *
 *
 *     pagelens_region_begin("assembly");
 *     ...
 *     pagelens_region_end("assembly");
 *
 * Without pagelens a marker costs six instructions on the stack, one load and a branch that is not
 * taken. It calls nothing and allocates nothing. Regions may nest. `name` may be any string; its
 * first 255 bytes count.
 *
 * How it works: the marker writes a record to the stack and announces it by one store whose
 * displacement is a magic number. The tracer recognises that instruction when it translates the
 * program, so ordinary stores cost nothing extra. It reads the record at the store's address, which
 * is valid memory. The interposer (interposer.c) reports allocations in the same way.
 *
 * Only the tracer sees such a store. `pagelens run --plan` needs to know the region as well,
 * because a plan may move objects between regions. It finds pagelens_hook by the name of its
 * section and writes the address of a function there; otherwise pagelens_hook is zero. At the begin
 * of a region the function is called before the tracer is told, and at its end afterwards.
 */
#ifndef PAGELENS_H
#define PAGELENS_H

#include <stdint.h>

/* The kinds of records. The numbers are part of the protocol with tracer/doorbell.hpp. */
enum pagelens_kind {
    PAGELENS_BIRTH = 1,        /* the caller's call site got `size` bytes at `address` */
    PAGELENS_DEATH = 2,        /* the block at `address` is about to be freed; `size` is 0 */
    PAGELENS_REGION_BEGIN = 3, /* `address` points to a name of `size` bytes */
    PAGELENS_REGION_END = 4,   /* as for the begin */
    /* The thread begins to wait for other processes. Where all of those that are in one call meet,
     * `address` is how many they are, and `size` how many such meetings the process had before.
     * Otherwise both are 0. */
    PAGELENS_WAIT_BEGIN = 5,
    PAGELENS_WAIT_END = 6, /* it goes on */
    /* `address` points to a meeting of `size` bytes, of a thread that waits */
    PAGELENS_MEETING = 7
};

/* Processes come to a place, turn after turn, or wait there until the others have done a turn. */
struct pagelens_meeting {
    uint32_t turn;
    uint8_t comes, waits, sends; /* sends: it waits as a sender */
    char place[57];              /* a name, which need not end with a zero */
};

struct pagelens_record {
    uint64_t kind;
    uint64_t address;
    uint64_t size;
};

/* movq %rax, PAGELENS_MAGIC(%rcx) is 48 89 81 followed by the magic, little endian. A compiler
 * would emit it only for an array of 1.8 GB addressed at an odd byte from a constant base. */
#define PAGELENS_MAGIC 0x6b8d5a31

/* A program that was compiled for tracing (docs/compiled.md) has no tracer that sees its stores. It
 * calls this function, which only the tracer's library has. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PAGELENS_TELLS 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define PAGELENS_TELLS 1
#endif
#if defined(PAGELENS_TELLS)
#ifdef __cplusplus
extern "C"
#endif
    void pagelens_tell(const struct pagelens_record* record) __attribute__((weak));
#endif

static inline void pagelens_ring(struct pagelens_record* record) {
#if defined(PAGELENS_TELLS)
    if (pagelens_tell) pagelens_tell(record);
#endif
#if defined(__x86_64__)
    /* Written as bytes, it is the same in both assembler syntaxes and is never shortened. */
    __asm__ __volatile__(".byte 0x48, 0x89, 0x81\n\t.long %c[magic]"
                         : "+m"(*record)
                         : "a"(record->kind),
                           "c"((uintptr_t)record - PAGELENS_MAGIC), [magic] "i"(PAGELENS_MAGIC));
#else
    (void)record;
#endif
}

typedef void pagelens_hook_function(const struct pagelens_record* record);

/* Each source file of the program has one. It is volatile and used, since compilers see no code
 * that writes to it. */
#if defined(__ELF__)
static pagelens_hook_function* volatile pagelens_hook
    __attribute__((section("pagelens_hooks"), used)) = 0;
#else
static pagelens_hook_function* volatile pagelens_hook = 0;
#endif

static inline void pagelens_call_hook(const struct pagelens_record* record) {
    pagelens_hook_function* hook = pagelens_hook;
    if (__builtin_expect(hook != 0, 0)) hook(record);
}

/* Marks a region whose name need not end with a zero. */
static inline void pagelens_mark_region(enum pagelens_kind kind, const char* name, uint64_t size) {
    struct pagelens_record record = {kind, (uintptr_t)name, size};
    if (kind == PAGELENS_REGION_BEGIN) pagelens_call_hook(&record);
    pagelens_ring(&record);
    if (kind == PAGELENS_REGION_END) pagelens_call_hook(&record);
}

static inline void pagelens_region_begin(const char* name) {
    pagelens_mark_region(PAGELENS_REGION_BEGIN, name, __builtin_strlen(name));
}

static inline void pagelens_region_end(const char* name) {
    pagelens_mark_region(PAGELENS_REGION_END, name, __builtin_strlen(name));
}

#endif
