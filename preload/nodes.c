#define _GNU_SOURCE
#include "preload/nodes.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* from linux/mempolicy.h */
enum {
    DEFAULT,
    PREFERRED,
    BIND,
    INTERLEAVE,
    PREFERRED_MANY = 5,      /* Linux 5.15 */
    WEIGHTED_INTERLEAVE = 6, /* Linux 6.9 */
    MOVE = 1 << 1
};
enum { PAGE = 4096, AT_ONCE = 256, MASK_BITS = NODE_WORDS * 64 + 1 };

/* Calls `set` with a policy that prefers all nodes; kernels before 5.15 can prefer only the first.
 */
static bool prefer(const uint64_t* nodes, long (*set)(int mode, const uint64_t* mask, void* what),
                   void* what) {
    uint64_t one[NODE_WORDS] = {0};
    int count = 0;
    for (int word = 0; word < NODE_WORDS; word++) {
        if (count == 0 && nodes[word]) one[word] = nodes[word] & -nodes[word];
        count += __builtin_popcountll(nodes[word]);
    }
    if (count > 1 && set(PREFERRED_MANY, nodes, what) == 0) return true;
    return set(PREFERRED, one, what) == 0;
}

struct memory {
    uintptr_t start;
    size_t bytes;
    unsigned flags;
};

static long of_memory(int mode, const uint64_t* mask, void* what) {
    const struct memory* memory = what;
    return syscall(SYS_mbind, memory->start, memory->bytes, mode, mask, mask ? MASK_BITS : 0,
                   memory->flags);
}

static long of_thread(int mode, const uint64_t* mask, void* what) {
    (void)what;
    return syscall(SYS_set_mempolicy, mode, mask, MASK_BITS);
}

bool nodes_prefer(uintptr_t start, size_t bytes, const uint64_t* nodes, bool move) {
    struct memory memory = {start, bytes, move ? MOVE : 0};
    return prefer(nodes, of_memory, &memory);
}

bool nodes_follow(uintptr_t start, size_t bytes, enum plan_rule rule, const uint64_t* nodes,
                  bool move) {
    static const int modes[RULES] = {
        [RULE_BIND] = BIND, [RULE_INTERLEAVE] = INTERLEAVE, [RULE_WEIGHTED] = WEIGHTED_INTERLEAVE};
    struct memory memory = {start, bytes, move ? MOVE : 0};
    return of_memory(modes[rule], nodes, &memory) == 0;
}

bool nodes_as_usual(uintptr_t start, size_t bytes, bool move) {
    struct memory memory = {start, bytes, move ? MOVE : 0};
    return of_memory(DEFAULT, NULL, &memory) == 0;
}

bool nodes_prefer_always(const uint64_t* nodes) { return prefer(nodes, of_thread, NULL); }

void nodes_look(uintptr_t start, size_t bytes, const uint64_t* nodes, struct nodes_seen* seen) {
    const int saved_errno = errno;
    const uintptr_t end = start + bytes;
    for (uintptr_t at = start & ~(uintptr_t)(PAGE - 1); at < end;) {
        void* pages[AT_ONCE];
        int nodes_of[AT_ONCE];
        unsigned long count = 0;
        for (; at < end && count < AT_ONCE; at += PAGE) pages[count++] = (void*)at;
        if (syscall(SYS_move_pages, 0, count, pages, NULL, nodes_of, 0) != 0) break;
        for (unsigned long i = 0; i < count; i++) {
            const int node = nodes_of[i];
            if (node >= 0 && node < SHOWN_NODES) seen->on[node] += PAGE;
            if (node < 0 || node >= NODE_WORDS * 64)
                seen->absent += PAGE;
            else if (nodes[node / 64] >> node % 64 & 1)
                seen->there += PAGE;
            else
                seen->elsewhere += PAGE;
        }
    }
    errno = saved_errno;
}
