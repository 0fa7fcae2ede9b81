/* A child that fills 1 MiB and ends with status 5, or, given a program, becomes that. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
    const pid_t child = fork();
    if (child == 0) {
        volatile char* block = malloc(1 << 20);
        for (int i = 0; i < 1 << 20; ++i) block[i] = (char)i;
        if (argc > 1) execv(argv[1], argv + 1);
        _exit(5);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
    return 0;
}
