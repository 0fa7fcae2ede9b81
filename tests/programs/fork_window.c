/*
 * What a thread may do while another one forks and waits for it: a handler of fork that the library
 * of `pagelens run` has not before its own has the thread allocate, map and give back, and waits.
 * Prints how what each asks for is bound (1: to preferred nodes, 0: not), in between, afterwards
 * and in the child.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../hooks/pagelens.h"

#define OBJECT __attribute__((noinline, noclone))
enum { MESH = 1 << 20, LATER = MESH / 4, ROW = 1000, ROWS = 100 };

void handler_of_fork(void (*function)(void)); /* of a library that the program is linked to */

static volatile size_t zero;
static char *mesh, *later, *large, *growing, *mapped, *remapped, *rows[ROWS];
static sem_t go, done;
static int working;

static void fail(const char* what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

OBJECT char* take_mesh(void) { return (char*)malloc(MESH) + zero; }
OBJECT char* take_later(void) { return (char*)malloc(LATER) + zero; }
OBJECT char* take_row(void) { return (char*)malloc(ROW) + zero; }
OBJECT char* take_mapped(void) {
    char* at = mmap(NULL, MESH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("no mapping");
    return at + zero;
}

static int bound(const char* page) {
    int policy = -1;
    syscall(SYS_get_mempolicy, &policy, NULL, 0, page, 2 /* MPOL_F_ADDR */);
    return policy;
}

static char* filled(char* block, size_t bytes) {
    if (block == NULL) fail("no block");
    return memset(block, 5, bytes);
}

static void check(const char* block, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != 5) fail("a byte is lost");
}

/* What is asked for, and given back at once. */
static void say(const char* when) {
    char *blocks[] = {take_mesh(), take_row(), take_mapped()}, *other = malloc(8 << 20);
    filled(other, 8 << 20);
    filled(blocks[0], MESH);
    filled(blocks[1], ROW);
    filled(blocks[2], MESH);
    printf("%s: mesh %d, row %d, mapped %d, later %d\n", when, bound(blocks[0]), bound(blocks[1]),
           bound(blocks[2]), bound(later));
    fflush(stdout);
    free(blocks[0]);
    free(blocks[1]);
    munmap(blocks[2], MESH);
    free(other);
}

static void give_all_back(void) {
    if (malloc_usable_size(mesh) < MESH || malloc_usable_size(rows[1]) < ROW)
        fail("a block is too small");
    growing = realloc(growing, 6 << 20);
    check(growing, 2 << 20);
    large = realloc(large, 2 << 20);
    check(large, 2 << 20);
    free(large);
    free(mesh);
    for (int i = 0; i < ROWS; i++) free(rows[i]);
    if (munmap(mapped, MESH)) fail("no munmap");
    remapped = mremap(remapped, MESH, 2 * MESH, MREMAP_MAYMOVE);
    if (remapped == MAP_FAILED) fail("no mremap");
    check(remapped, MESH);
}

static void* work(void* nothing) {
    while (sem_wait(&go) == 0 && working) {
        pagelens_region_begin("one");
        say("meanwhile");
        give_all_back();
        sem_post(&done);
    }
    return nothing;
}

static void let_it_work(void) {
    if (!working) return;
    sem_post(&go);
    sem_wait(&done);
    say("the handler");
}

/* Stdio has its list of files locked in here, for which the fork waits behind all handlers. */
static ssize_t write_slowly(void* nothing, const char* text, size_t bytes) {
    (void)nothing;
    (void)text;
    sem_post(&done);
    sem_wait(&go);
    char *block = filled(take_mesh(), MESH), *other = filled(malloc(8 << 20), 8 << 20);
    free(block);
    free(other);
    return (ssize_t)bytes;
}

static void* flush(void* nothing) {
    FILE* file = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_slowly});
    if (file == NULL || fputs("something", file) < 0 || fflush(NULL)) fail("no file");
    fclose(file);
    return nothing;
}

static void let_it_write(void) { sem_post(&go); }

static void fork_beside_stdio(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, flush, NULL)) fail("no thread");
    sem_wait(&done);
    handler_of_fork(let_it_write);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    pthread_join(thread, NULL);
}

static void end_child(void) {
    say("child");
    check(growing, 2 << 20);
    check(remapped, MESH);
    free(growing);
    munmap(remapped, 2 * MESH);
    working = 0;
    if (fork() == 0) {
        say("grandchild");
        _exit(0);
    }
    int status = 1;
    wait(&status);
    _exit(status != 0);
}

int main(void) {
    pthread_t thread;
    handler_of_fork(let_it_work);
    mesh = filled(take_mesh(), MESH);
    later = filled(take_later(), LATER);
    large = filled(malloc(5 << 20), 5 << 20);
    growing = filled(malloc(2 << 20), 2 << 20);
    mapped = filled(take_mapped(), MESH);
    remapped = filled(take_mapped(), MESH);
    for (int i = 0; i < ROWS; i++) rows[i] = filled(take_row(), ROW);
    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    working = 1;
    if (pthread_create(&thread, NULL, work, NULL)) fail("no thread");
    const pid_t child = fork();
    if (child == 0) end_child();
    int status = 1;
    waitpid(child, &status, 0);
    printf("child ended: %d\n", status);
    say("parent");
    check(growing, 2 << 20);
    working = 0;
    sem_post(&go);
    pthread_join(thread, NULL);
    fork_beside_stdio();
    pagelens_region_begin("one");
    say("in a region");
    free(growing);
    munmap(remapped, 2 * MESH);
    check(later, LATER);
    return 0;
}
