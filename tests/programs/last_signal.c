// Twenty children. The first thread of each ends right after it began another one, which sends
// SIGTERM to the process, each a little later. Prints how many it ended. An alarm ends the others.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void* send_later(void* microseconds) {
    const long end = (long)microseconds;
    for (volatile long i = 0; i < end * 100; ++i) {
    }
    kill(getpid(), SIGTERM);
    pause();
    return microseconds;
}

int main(void) {
    int ended = 0;
    for (long i = 0; i < 20; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            pthread_t other;
            alarm(5);
            pthread_create(&other, NULL, send_later, (void*)(i * 100));
            syscall(SYS_exit, 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        ended += WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
    }
    printf("%d\n", ended);
    return 0;
}
