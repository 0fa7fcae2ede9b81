// Forks 200 children that work, and gathers what they return; some die of a signal.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int returned = 0, killed = 0;
    for (int round = 0; round < 20; ++round) {
        int fd[2];
        if (pipe(fd) != 0) return 1;
        for (int i = 0; i < 10; ++i) {
            if (fork() == 0) {
                int *values = malloc(40000), sum = 0;
                for (int k = 0; k < 10000; ++k) values[k] = k % 7;
                for (int k = 0; k < 10000; ++k) sum += values[k];
                if (write(fd[1], &sum, sizeof sum) != sizeof sum) _exit(9);
                if (i == 9) raise(SIGKILL);
                exit(i);
            }
        }
        for (int i = 0; i < 10; ++i) {
            int status, sum;
            wait(&status);
            if (read(fd[0], &sum, sizeof sum) != sizeof sum) return 2;
            returned += WIFEXITED(status) ? WEXITSTATUS(status) + sum : 0;
            killed += WIFSIGNALED(status);
        }
        close(fd[0]);
        close(fd[1]);
    }
    printf("%d %d\n", returned, killed);
    return 0;
}
