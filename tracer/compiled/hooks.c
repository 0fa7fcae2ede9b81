/*
 * What a program calls that was compiled for tracing and is not traced: functions that do nothing.
 * `pagelens trace` preloads a library that has functions of the same names (accesses.cpp).
 */
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void __tsan_init(void) {}

/* Nothing is recorded (hooks/pagelens_inline.h). */
EXPORT _Thread_local void* pagelens_thread __attribute__((tls_model("initial-exec")));
EXPORT int pagelens_listens;

#define HOOK(name) \
    EXPORT void name(void* p) { (void)p; }
#define HOOKS(bytes)                            \
    HOOK(__tsan_read##bytes)                    \
    HOOK(__tsan_write##bytes)                   \
    HOOK(__tsan_unaligned_read##bytes)          \
    HOOK(__tsan_unaligned_write##bytes)         \
    HOOK(__tsan_volatile_read##bytes)           \
    HOOK(__tsan_volatile_write##bytes)          \
    HOOK(__tsan_unaligned_volatile_read##bytes) \
    HOOK(__tsan_unaligned_volatile_write##bytes)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
HOOK(__tsan_vptr_read)

#define RANGE(name) \
    EXPORT void name(void* p, unsigned long bytes) { (void)p, (void)bytes; }
RANGE(__tsan_read_range)
RANGE(__tsan_write_range)

EXPORT void __tsan_vptr_update(void** p, void* value) { (void)p, (void)value; }
EXPORT void pagelens_pass(void* p, unsigned bytes, unsigned store) {
    (void)p, (void)bytes, (void)store;
}
EXPORT void pagelens_pass_first(void* p, unsigned bytes, unsigned store) {
    (void)p, (void)bytes, (void)store;
}

/* Newer versions of clang call these where others call the functions of libc. */
EXPORT void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
    return memcpy(to, from, bytes);
}
EXPORT void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
    return memmove(to, from, bytes);
}
EXPORT void* __tsan_memset(void* to, int value, unsigned long bytes) {
    return memset(to, value, bytes);
}
