// Twenty children that SIGTERM shall end. The first thread of each begins others and ends.
// With `sent` another thread then sends the signal to the process, each a little later. With
// `pending` both block it, the first thread sends it, and the other one lets it through when the
// first thread is gone. With `worker` a third thread sends it and ends, once the first is gone.
// Prints how many children the signal ended. An alarm ends the others.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static sigset_t termination;
static volatile int other_runs, sender;

static void* send_later(void* microseconds) {
    const long end = (long)microseconds;
    for (volatile long i = 0; i < end * 100; ++i) {
    }
    kill(getpid(), SIGTERM);
    pause();
    return microseconds;
}

// The state of a thread that has ended is Z, or X.
static int runs(int thread) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE* file = fopen(path, "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    fclose(file);
    return state != 'Z' && state != 'X';
}

static void* let_through(void* nothing) {
    other_runs = 1;
    while (sender == 0 || runs(sender)) usleep(1000);
    pthread_sigmask(SIG_UNBLOCK, &termination, NULL);
    pause();
    return nothing;
}

static void* send_and_end(void* nothing) {
    const int own = (int)syscall(SYS_gettid);
    while (!other_runs || (own != getpid() && runs(getpid()))) usleep(1000);
    kill(getpid(), SIGTERM);
    sender = own;
    syscall(SYS_exit, 0);
    return nothing;
}

int main(int argc, char** argv) {
    const int worker = argc > 1 && strcmp(argv[1], "worker") == 0;
    const int pending = worker || (argc > 1 && strcmp(argv[1], "pending") == 0);
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
            if (worker) pthread_create(&other, NULL, send_and_end, NULL);
            if (pending && !worker) send_and_end(NULL);
            syscall(SYS_exit, 0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        ended += WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
    }
    printf("%d\n", ended);
    return 0;
}
