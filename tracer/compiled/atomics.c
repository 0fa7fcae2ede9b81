/*
 * Atomic operations of programs that were compiled for tracing: the compiler calls these functions
 * in their place (tsan_interface_atomic.h). Each does what it is named for, in the strictest order,
 * and tells of the access. Both libraries have them: in that of an untraced program (hooks.c)
 * nobody listens.
 */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

void __tsan_read1(void*), __tsan_read2(void*), __tsan_read4(void*), __tsan_read8(void*),
    __tsan_read16(void*), __tsan_write1(void*), __tsan_write2(void*), __tsan_write4(void*),
    __tsan_write8(void*), __tsan_write16(void*);

#define LOADS(bits, bytes, type)                                                \
    EXPORT type __tsan_atomic##bits##_load(const volatile type* p, int order) { \
        (void)order;                                                            \
        __tsan_read##bytes((void*)(uintptr_t)p);                                \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                            \
    }
#define STORES(bits, bytes, type)                                                  \
    EXPORT void __tsan_atomic##bits##_store(volatile type* p, type v, int order) { \
        (void)order;                                                               \
        __tsan_write##bytes((void*)(uintptr_t)p);                                  \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                  \
    }
#define UPDATES(bits, bytes, type, name, builtin)                                   \
    EXPORT type __tsan_atomic##bits##_##name(volatile type* p, type v, int order) { \
        (void)order;                                                                \
        __tsan_write##bytes((void*)(uintptr_t)p);                                   \
        return builtin(p, v, __ATOMIC_SEQ_CST);                                     \
    }
#define EXCHANGES(bits, bytes, type, name)                                                         \
    EXPORT int __tsan_atomic##bits##_compare_exchange_##name(volatile type* p, type* expected,     \
                                                             type v, int order, int failed) {      \
        (void)order, (void)failed;                                                                 \
        __tsan_write##bytes((void*)(uintptr_t)p);                                                  \
        return __atomic_compare_exchange_n(p, expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
#define ATOMICS(bits, bytes, type)                                                          \
    LOADS(bits, bytes, type)                                                                \
    STORES(bits, bytes, type)                                                               \
    UPDATES(bits, bytes, type, exchange, __atomic_exchange_n)                               \
    UPDATES(bits, bytes, type, fetch_add, __atomic_fetch_add)                               \
    UPDATES(bits, bytes, type, fetch_sub, __atomic_fetch_sub)                               \
    UPDATES(bits, bytes, type, fetch_and, __atomic_fetch_and)                               \
    UPDATES(bits, bytes, type, fetch_or, __atomic_fetch_or)                                 \
    UPDATES(bits, bytes, type, fetch_xor, __atomic_fetch_xor)                               \
    UPDATES(bits, bytes, type, fetch_nand, __atomic_fetch_nand)                             \
    EXCHANGES(bits, bytes, type, strong)                                                    \
    EXCHANGES(bits, bytes, type, weak)                                                      \
    EXPORT type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type expected, \
                                                           type v, int order, int failed) { \
        __tsan_atomic##bits##_compare_exchange_strong(p, &expected, v, order, failed);      \
        return expected;                                                                    \
    }

ATOMICS(8, 1, uint8_t)
ATOMICS(16, 2, uint16_t)
ATOMICS(32, 4, uint32_t)
ATOMICS(64, 8, uint64_t)

/*
 * Operations of 16 bytes, by cmpxchg16b as in libatomic, which compilers call for them otherwise.
 */
__extension__ typedef unsigned __int128 uint128;

static uint128 exchange_if(volatile uint128* p, uint128 expected, uint128 v) {
    return __sync_val_compare_and_swap(p, expected, v);
}

#define UPDATES16(name, value)                                                          \
    EXPORT uint128 __tsan_atomic128_##name(volatile uint128* p, uint128 v, int order) { \
        uint128 was = *p, seen;                                                         \
        (void)order;                                                                    \
        __tsan_write16((void*)(uintptr_t)p);                                            \
        while ((seen = exchange_if(p, was, value)) != was) was = seen;                  \
        return was;                                                                     \
    }
UPDATES16(exchange, v)
UPDATES16(fetch_add, was + v)
UPDATES16(fetch_sub, was - v)
UPDATES16(fetch_and, (was & v))
UPDATES16(fetch_or, (was | v))
UPDATES16(fetch_xor, (was ^ v))
UPDATES16(fetch_nand, ~(was& v))

EXPORT uint128 __tsan_atomic128_load(const volatile uint128* p, int order) {
    (void)order;
    __tsan_read16((void*)(uintptr_t)p);
    return exchange_if((volatile uint128*)(uintptr_t)p, 0, 0);
}
EXPORT void __tsan_atomic128_store(volatile uint128* p, uint128 v, int order) {
    (void)__tsan_atomic128_exchange(p, v, order);
}
EXPORT uint128 __tsan_atomic128_compare_exchange_val(volatile uint128* p, uint128 expected,
                                                     uint128 v, int order, int failed) {
    (void)order, (void)failed;
    __tsan_write16((void*)(uintptr_t)p);
    return exchange_if(p, expected, v);
}
EXPORT int __tsan_atomic128_compare_exchange_strong(volatile uint128* p, uint128* expected,
                                                    uint128 v, int order, int failed) {
    const uint128 wanted = *expected;
    *expected = __tsan_atomic128_compare_exchange_val(p, wanted, v, order, failed);
    return *expected == wanted;
}
EXPORT int __tsan_atomic128_compare_exchange_weak(volatile uint128* p, uint128* expected, uint128 v,
                                                  int order, int failed) {
    return __tsan_atomic128_compare_exchange_strong(p, expected, v, order, failed);
}

EXPORT void __tsan_atomic_thread_fence(int order) {
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EXPORT void __tsan_atomic_signal_fence(int order) {
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
EXPORT void __tsan_func_entry(void* caller) { (void)caller; }
EXPORT void __tsan_func_exit(void) {}
