/* Atomic operations of 16 bytes, as lock-free lists have them. Exits with 0 if all are right. */
#include <stdint.h>

__extension__ typedef unsigned __int128 pair;

static _Alignas(16) pair shared;

static pair of(uint64_t high, uint64_t low) { return (pair)high << 64 | low; }

int main(void) {
    pair seen = of(9, 9);
    int wrong = 0;
    __atomic_store_n(&shared, of(1, 2), __ATOMIC_SEQ_CST);
    wrong += __atomic_load_n(&shared, __ATOMIC_SEQ_CST) != of(1, 2);
    wrong += __atomic_fetch_add(&shared, of(3, UINT64_MAX), __ATOMIC_SEQ_CST) != of(1, 2);
    wrong += __atomic_fetch_sub(&shared, 1, __ATOMIC_SEQ_CST) != of(5, 1);
    wrong += __atomic_fetch_or(&shared, of(2, 6), __ATOMIC_SEQ_CST) != of(5, 0);
    wrong += __atomic_fetch_and(&shared, of(3, 3), __ATOMIC_SEQ_CST) != of(7, 6);
    wrong += __atomic_fetch_xor(&shared, of(1, 1), __ATOMIC_SEQ_CST) != of(3, 2);
    wrong += __atomic_fetch_nand(&shared, of(2, 1), __ATOMIC_SEQ_CST) != of(2, 3);
    wrong += __atomic_exchange_n(&shared, of(7, 8), __ATOMIC_SEQ_CST) != ~of(2, 1);
    wrong += __atomic_compare_exchange_n(&shared, &seen, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    wrong += seen != of(7, 8);
    wrong += !__atomic_compare_exchange_n(&shared, &seen, 5, 1, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    wrong += __atomic_load_n(&shared, __ATOMIC_SEQ_CST) != 5;
    return wrong;
}
