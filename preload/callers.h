/*
 * Which object of the plan a block belongs to, by who asks for it.
 *
 * Nearly all blocks belong to none, and must not cost more for it: a table says of a return address
 * whether any site begins there. Those in a runtime (operator new asks for everybody) are passed
 * over by the size of their frame, which the unwinder has said often enough to be believed.
 */
#ifndef PAGELENS_RUN_CALLERS_H
#define PAGELENS_RUN_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of an exported function: where it returns to, and the first byte of its caller's frame. */
struct caller {
    uintptr_t address;
    const char* frame;
};
#define CALLER ((struct caller){(uintptr_t)__builtin_return_address(0), __builtin_dwarf_cfa()})

enum {
    CALLER_ENTRIES = 1 << 13,
    CALLER_LEVELS = 6, /* of a runtime, one calling the other */
    CALLER_SURE = 8,   /* times that the unwinder has to say the same */
};

/* A return address (its 48 bits), and what is known of it: kind (2 bits), how often its frame was
 * of that size (4), the size in words (10; 0: it differs). Read and written as one. */
extern uint64_t caller_entries[CALLER_ENTRIES];
enum caller_kind { CALLER_NOTHING, CALLER_BEGINS /* a site */, CALLER_RUNTIME };

static inline uint64_t* caller_entry(uintptr_t address) {
    return &caller_entries[address * UINT64_C(0x9e3779b97f4a7c15) >> 51];
}
static inline enum caller_kind caller_kind(uint64_t known) { return (enum caller_kind)(known & 3); }
static inline unsigned caller_times(uint64_t known) { return known >> 2 & 15; }
static inline size_t caller_words(uint64_t known) { return known >> 6 & 1023; }

/* 0: nothing. */
static inline uint64_t caller_known(uintptr_t address) {
    const uint64_t known = __atomic_load_n(caller_entry(address), __ATOMIC_RELAXED);
    return known >> 16 == address ? known : 0;
}

/* The same of the runtime's call that was first to be sure, as of operator new: nearly all blocks
 * of a C++ program come by it. 0: none yet. */
extern uint64_t caller_usual;

/* Whether a block is known to belong to no object. */
static inline bool callers_none(struct caller caller) {
    const uint64_t usual = __atomic_load_n(&caller_usual, __ATOMIC_RELAXED);
    if (usual >> 16 == caller.address) {
        caller.frame += 8 * caller_words(usual);
        caller.address = *(const uintptr_t*)(const void*)(caller.frame - 8);
    }
    for (int level = 0; level < CALLER_LEVELS; level++) {
        const uint64_t known = caller_known(caller.address);
        if (known == 0) return false;
        if (caller_kind(known) == CALLER_NOTHING) return true;
        if (caller_kind(known) == CALLER_BEGINS || caller_times(known) < CALLER_SURE) return false;
        caller.frame += 8 * caller_words(known);
        caller.address = *(const uintptr_t*)(const void*)(caller.frame - 8);
    }
    return false;
}

/* The index + 1 of the object that a block asked for here belongs to, by the whole stack; 0: none.
 * Only while plan_active. From any thread. */
uint32_t callers_object(void);

#endif
