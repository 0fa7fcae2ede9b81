/* Starts as many workers as its second argument says, which fill 1 MiB each at the same time, and
   waits for them. With "fork", they are forks; with "spawn", they execute this program anew.
   Before, it fills 1 MiB itself. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill(void) {
    const size_t n = 1 << 17;
    volatile double* mine = malloc(n * sizeof *mine);
    for (int sweep = 0; sweep < 2; ++sweep)
        for (size_t i = 0; i < n; ++i) mine[i] = (double)i;
}

/* Nobody begins before all have come: each says so through the first pipe, and waits for the
 * second's end. */
static void work(const int come[2], const int go[2]) {
    char byte = 0;
    close(go[1]);
    if (write(come[1], &byte, 1) != 1) abort();
    if (read(go[0], &byte, 1) != 0) abort();
    fill();
    _exit(0);
}

int main(int argc, char** argv) {
    if (argc == 2) work((int[]){-1, 11}, (int[]){12, 13});
    const int workers = atoi(argv[2]);
    int come[2], go[2];
    char byte;
    fill();
    if (pipe(come) != 0 || pipe(go) != 0) return 1;
    for (int i = 0; i < workers; ++i) {
        if (fork() != 0) continue;
        if (strcmp(argv[1], "fork") == 0) work(come, go);
        dup2(come[1], 11);
        dup2(go[0], 12);
        dup2(go[1], 13);
        close(go[1]);
        execv(argv[0], (char*[]){argv[0], "worker", NULL});
        abort();
    }
    for (int i = 0; i < workers; ++i)
        if (read(come[0], &byte, 1) != 1) return 1;
    close(go[1]);
    while (wait(NULL) > 0) continue;
    return 0;
}
