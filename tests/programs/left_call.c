/* Leaves a call of MPI by longjmp(), and works afterwards. No library of MPI is needed: the shared
 * library made of this file with LIBRARY defined has the only function. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

typedef void callback(void);
int MPI_Barrier(callback* from);

#ifdef LIBRARY
int MPI_Barrier(callback* from) {
    if (from != NULL) from();
    return 0;
}
#else
static jmp_buf before;
static volatile long sum;

static void leave(void) { longjmp(before, 1); }

static void work(long count) {
    for (long i = 0; i < count; ++i) sum += i;
}

int main(int argc, char** argv) {
    const int leaves = argc > 1 && strcmp(argv[1], "leave") == 0;
    if (setjmp(before) == 0) MPI_Barrier(leaves ? leave : NULL);
    work(4000000);
    MPI_Barrier(NULL);
    work(4000000);
    puts("done");
    return 0;
}
#endif
