/* A child fills 1 MiB of its own, once for each word of the command, and the parent another. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill(void) {
    const size_t n = 1 << 17;
    double* mine = malloc(n * sizeof *mine);
    for (size_t i = 0; i < n; ++i) mine[i] = (double)i;
    if (mine[n / 2] < 1) abort();
    free(mine);
}

int main(int argc, char** argv) {
    (void)argv;
    int status = 0;
    if (fork() == 0) {
        for (int i = 0; i < argc; ++i) fill();
        _exit(4);
    }
    wait(&status);
    fill();
    return WEXITSTATUS(status);
}
