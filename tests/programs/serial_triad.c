/* STREAM's triad, whose arrays one thread writes first: serial_triad SWEEPS. The threads are
 * OpenMP's. With a second argument it prints the node of every page: a line of digits for each
 * array. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ELEMENTS = 1 << 19, PAGE = 4096 }; /* 4 MiB an array */

static double* take(void) {
    void* block = NULL;
    if (posix_memalign(&block, PAGE, ELEMENTS * sizeof(double)) != 0) exit(1);
    return block;
}

static void say_nodes(char name, double* array) {
    printf("%c ", name);
    for (char* at = (char*)array; at < (char*)(array + ELEMENTS); at += PAGE) {
        void* page = at;
        int node = -1;
        syscall(SYS_move_pages, 0, 1, &page, NULL, &node, 0);
        putchar(node >= 0 && node < 10 ? '0' + node : '?');
    }
    putchar('\n');
}

int main(int count, char** words) {
    const int sweeps = count > 1 ? atoi(words[1]) : 1;
    double* a = take();
    double* b = take();
    double* c = take();
    for (int i = 0; i < ELEMENTS; i++) a[i] = 0, b[i] = i, c[i] = 1;
    for (int sweep = 0; sweep < sweeps; sweep++) {
#pragma omp parallel for schedule(static)
        for (int i = 0; i < ELEMENTS; i++) a[i] = b[i] + 3 * c[i];
    }
    if (count > 2) say_nodes('a', a), say_nodes('b', b), say_nodes('c', c);
    return a[ELEMENTS - 1] == ELEMENTS - 1 + 3 ? 0 : 1;
}
