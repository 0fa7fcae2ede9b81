"""Programs that must do the same with a library of ours preloaded as without it."""

import pytest

programs_as_they_come = pytest.mark.parametrize(
    "command",
    [
        ["/usr/bin/sort", "/etc/passwd"],
        ["/bin/sh", "-c", "echo a; (echo b | cat); exec ls /"],
        ["/usr/bin/python3", "-c", "import json, threading; a = bytearray(1 << 22); print(len(a))"],
        ["/usr/bin/g++", "--version"],
    ],
    ids=["sort", "sh", "python", "g++"],
)

# An allocator in the executable: says whether its blocks, a large one too, are its own.
OWN_ALLOCATOR = r"""
#include <stddef.h>
#include <stdio.h>
static char memory[8 << 20] __attribute__((aligned(16)));
static size_t used;
void *malloc(size_t n) { void *p = memory + used; used += (n + 15) & ~(size_t)15; return p; }
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
int main(void) {
    char *small = malloc(10), *large = malloc(4 << 20);
    printf("%d %d\n", small >= memory && small < memory + sizeof memory,
           large >= memory && large < memory + sizeof memory);
    return 0;
}
"""

# Says what every function of the family does at its edges: results, errno, alignment, contents.
ALLOCATIONS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static volatile size_t huge = PTRDIFF_MAX, one = 1, two = 2;

static void say(const char *what, const void *block, size_t alignment) {
    const char *kind = block == NULL ? "null" : block == MAP_FAILED ? "failed" : "ok";
    printf("%s: %s, aligned %d, errno %d\n", what, kind, (int)((uintptr_t)block % alignment == 0), errno);
    errno = 77;
}

int main(void) {
    void *block = NULL;
    char *text;
    errno = 77;
    for (size_t size = 0; size < 200000; size = size * 3 + 1) {
        say("malloc", block = malloc(size), 16);
        printf("%d\n", malloc_usable_size(block) >= size);
        free(block);
        say("calloc", text = calloc(size, 2), 16);
        for (size_t i = 0; i < 2 * size; ++i)
            if (text[i] != 0) return 1;
        free(text);
    }
    say("malloc(huge)", malloc(huge), 1);
    say("calloc(huge)", calloc(huge, two), 1);
    say("calloc overflow", calloc(huge + one, two), 1);

    text = NULL;
    for (size_t size = 1; size < 5000000; size *= 5) {
        say("realloc", text = realloc(text, size), 16);
        for (size_t i = 0; i < size / 5; ++i)
            if (text[i] != (char)i) return 2;
        for (size_t i = 0; i < size; ++i) text[i] = (char)i;
    }
    say("realloc(huge)", realloc(text, huge), 1);
    if (text[1000] != (char)1000) return 3;
    say("reallocarray overflow", reallocarray(text, huge, two), 1);
    say("reallocarray", text = reallocarray(text, 1000, 7), 16);
    say("realloc to 0", realloc(text, 0), 1);
    say("realloc(0, 0)", block = realloc(NULL, 0), 16);
    free(block);

    for (size_t alignment = 8; alignment <= 65536; alignment *= 2) {
        block = (void *)7;
        printf("posix_memalign %d\n", posix_memalign(&block, alignment, 100));
        say("posix_memalign", block, alignment);
        free(block);
        say("aligned_alloc", block = aligned_alloc(alignment, alignment), alignment);
        free(block);
        say("memalign", block = memalign(alignment, 3), alignment);
        free(block);
    }
    block = (void *)7;
    printf("posix_memalign %d %d\n", posix_memalign(&block, 3, 100), block == (void *)7);
    printf("posix_memalign %d %d\n", posix_memalign(&block, 64, huge), block == (void *)7);
    say("valloc", block = valloc(10), 4096);
    free(block);
    say("pvalloc", block = pvalloc(10), 4096);
    free(block);
    free(NULL);
    say("free(NULL)", NULL, 1);

    char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mmap", pages, 4096);
    strcpy(pages, "kept");
    say("mremap", pages = mremap(pages, 3 * 4096, 5000 * 4096, MREMAP_MAYMOVE), 4096);
    printf("%s\n", pages);
    char *there = mmap(NULL, 5000 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mremap fixed", mremap(pages, 5000 * 4096, 5000 * 4096, MREMAP_MAYMOVE | MREMAP_FIXED, there), 4096);
    printf("%s\n", there);
    say("mmap of nothing", mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1);
    say("mmap64", mmap64(NULL, 4096, PROT_READ, MAP_PRIVATE, 99, 0), 1);
    say("mremap of nothing", mremap((void *)4096, 4096, 8192, 0), 1);
    return 0;
}
"""

# Threads that allocate, hand blocks over, fork and allocate in the child.
THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *seed) {
    unsigned state = (unsigned)(size_t)seed;
    void *blocks[64] = {0};
    for (int i = 0; i < 20000; ++i) {
        const unsigned at = rand_r(&state) % 64;
        free(blocks[at]);
        blocks[at] = malloc(rand_r(&state) % 3000);
    }
    for (int i = 1; i < 64; ++i) free(blocks[i]);
    return blocks[0];
}

int main(void) {
    pthread_t threads[4];
    void *left;
    for (size_t i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    const pid_t child = fork();
    if (child == 0) {
        free(work((void *)9));
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], &left);
        free(left);
    }
    return 0;
}
"""
