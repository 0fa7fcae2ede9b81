/*
 * Finds out which object of the plan a block belongs to, from the call stack that asks for it.
 *
 * Nearly all blocks belong to no object, and finding that out must cost next to nothing. So a table
 * remembers of each return address whether a call site of the plan begins there. Return addresses
 * in a language's runtime decide nothing, since operator new is called from everywhere: they are
 * skipped by the size of their stack frame, once the unwinder has reported the same size often
 * enough.
 */
#ifndef PAGELENS_RUN_CALLERS_H
#define PAGELENS_RUN_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who called an exported function: the return address, and the first byte of the caller's frame. */
struct caller {
    uintptr_t address;
    const char* frame;
};
#define CALLER ((struct caller){(uintptr_t)__builtin_return_address(0), __builtin_dwarf_cfa()})

enum {
    CALLER_ENTRIES = 1 << 13,
    CALLER_LEVELS = 6, /* frames of a runtime that call each other */
    CALLER_SURE = 8,   /* times that the unwinder has to report the same size */
};

/* What is known of a return address, in one word that is read and written atomically. From the
 * highest bits down: the address (48 bits), the size of its frame in words of 8 bytes (10 bits; 0
 * if the size varies), how often the frame had this size (4 bits), the kind (2 bits). */
extern uint64_t caller_entries[CALLER_ENTRIES];
enum caller_kind { CALLER_NOTHING, CALLER_BEGINS /* a site of the plan */, CALLER_RUNTIME };

static inline uint64_t* caller_entry(uintptr_t address) {
    return &caller_entries[address * UINT64_C(0x9e3779b97f4a7c15) >> 51];
}
static inline enum caller_kind caller_kind(uint64_t known) { return (enum caller_kind)(known & 3); }
static inline unsigned caller_times(uint64_t known) { return known >> 2 & 15; }
static inline size_t caller_words(uint64_t known) { return known >> 6 & 1023; }

/* The entry of an address; 0 if nothing is known of it. */
static inline uint64_t caller_known(uintptr_t address) {
    const uint64_t known = __atomic_load_n(caller_entry(address), __ATOMIC_RELAXED);
    return known >> 16 == address ? known : 0;
}

/* The entry of the first call in a runtime whose frame size was established, usually that of
 * operator new: nearly all blocks of a C++ program come through it. 0 if there is none yet. */
extern uint64_t caller_usual;

/* Whether the table alone says that a block belongs to no object. */
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

/* The index + 1 of the object that a block asked for here belongs to, or 0 for none. Walks the
 * whole stack. Any thread may call it while plan_active. */
uint32_t callers_object(void);

#endif
