// Twenty children that SIGTERM shall end. The first thread of each begins another one and ends.
// With `sent` the other thread then sends the signal to the process, each a little later. With
// `pending` both block it, the first thread sends it, and the other one lets it through when the
// first thread is gone. Prints how many children the signal ended. An alarm ends the others.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static sigset_t termination;
static volatile int other_runs;

static void* send_later(void* microseconds) {
    const long end = (long)microseconds;
    for (volatile long i = 0; i < end * 100; ++i) {
    }
    kill(getpid(), SIGTERM);
    pause();
    return microseconds;
}

// The state of a thread that has ended is Z, or X.
static int first_thread_runs(void) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    FILE* file = fopen(path, "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    fclose(file);
    return state != 'Z' && state != 'X';
}

static void* let_through(void* nothing) {
    other_runs = 1;
    while (first_thread_runs()) usleep(1000);
    pthread_sigmask(SIG_UNBLOCK, &termination, NULL);
    pause();
    return nothing;
}

int main(int argc, char** argv) {
    const int pending = argc > 1 && strcmp(argv[1], "pending") == 0;
    int ended = 0;
    sigemptyset(&termination);
    sigaddset(&termination, SIGTERM);
    for (long i = 0; i < 20; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            pthread_t other;
            alarm(30);
            if (pending) pthread_sigmask(SIG_BLOCK, &termination, NULL);
            pthread_create(&other, NULL, pending ? let_through : send_later, (void*)(i * 100));
            while (pending && !other_runs) {
            }
            if (pending) kill(getpid(), SIGTERM);
            syscall(SYS_exit, 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        ended += WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
    }
    printf("%d\n", ended);
    return 0;
}
