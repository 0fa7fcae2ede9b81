/*
 * The guest's init: mounts what Linux offers, and does what the lab asks for on the second serial
 * port. One request at a time:
 *
 *   run BYTES\n<argument NUL argument NUL ...>     runs a program to its end
 *   append BYTES PATH\n<bytes>                     adds to a file, at most REQUEST_BYTES
 *
 * Answers, any number of the first two and then one `end`:
 *
 *   out BYTES\n<bytes>     what the program printed on stdout and stderr
 *   beat\n                 every BEAT_S seconds of guest time: the guest is alive
 *   end exit N\n           or `end signal N\n`; after `append`, N is an errno
 *
 * `ready RELEASE\n` comes once, when the guest is up.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { REQUEST_BYTES = 4096, MOST_ARGUMENTS = 512, BEAT_S = 2 };

static int port = -1;

/* Init must not end: the kernel would panic, which the lab shows with this line above it. */
static void give_up(const char* what) {
    fprintf(stderr, "pagelens agent: %s: %s\n", what, strerror(errno));
    reboot(RB_POWER_OFF);
}

static void send_bytes(const char* bytes, size_t count) {
    while (count > 0) {
        const ssize_t sent = write(port, bytes, count);
        if (sent < 0 && errno != EINTR) give_up("cannot write to the lab");
        if (sent > 0) bytes += sent, count -= (size_t)sent;
    }
}

static void __attribute__((format(printf, 1, 2))) say(const char* format, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    send_bytes(line, (size_t)length);
}

static void receive(char* bytes, size_t count) {
    while (count > 0) {
        const ssize_t got = read(port, bytes, count);
        if (got == 0 || (got < 0 && errno != EINTR)) give_up("cannot read from the lab");
        if (got > 0) bytes += got, count -= (size_t)got;
    }
}

static void receive_line(char* line, size_t room) {
    size_t length = 0;
    do {
        receive(line + length, 1);
    } while (line[length] != '\n' && ++length < room - 1);
    line[length] = '\0';
}

/* Hands on what is in the pipe; false at its end. */
static int forward(int pipe_end) {
    char bytes[REQUEST_BYTES];
    const ssize_t got = read(pipe_end, bytes, sizeof bytes);
    if (got <= 0) return got < 0 && (errno == EINTR || errno == EAGAIN);
    say("out %zd\n", got);
    send_bytes(bytes, (size_t)got);
    return 1;
}

/* The program's end is seen on `ended`: init also reaps what other programs leave behind. */
static int child_status;
static pid_t child;

static void reap(int signal_number) {
    (void)signal_number;
    const int saved = errno;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != child) continue;
        child_status = status;
        child = 0;
    }
    errno = saved;
}

static void run(char** arguments) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) give_up("pipe");
    sigset_t chld, before;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, &before); /* delivered in ppoll alone */
    child = fork();
    if (child < 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        say("end exit %d\n", 126);
        return;
    }
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        setsid();
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execvp(arguments[0], arguments);
        fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    const struct timespec beat = {BEAT_S, 0};
    int open = 1;
    while (child > 0) {
        struct pollfd out = {ends[0], POLLIN, 0};
        const int ready = ppoll(&out, open ? 1 : 0, &beat, &before);
        if (ready == 0) say("beat\n");
        if (ready > 0) open = forward(ends[0]);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    /* What the program left in the pipe; children of it that live on may hold the pipe open. */
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    for (struct pollfd out = {ends[0], POLLIN, 0}; open && poll(&out, 1, 0) > 0;) {
        open = forward(ends[0]);
    }
    close(ends[0]);
    if (WIFSIGNALED(child_status)) {
        say("end signal %d\n", WTERMSIG(child_status));
    } else {
        say("end exit %d\n", WEXITSTATUS(child_status));
    }
}

static int append(const char* path, const char* bytes, size_t count) {
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0755);
    if (file < 0) return errno;
    const int error = write(file, bytes, count) == (ssize_t)count ? 0 : errno;
    close(file);
    return error;
}

static void serve(void) {
    static char line[REQUEST_BYTES];
    static char bytes[REQUEST_BYTES + 1];
    static char* arguments[MOST_ARGUMENTS + 1];
    receive_line(line, sizeof line);
    unsigned count = 0;
    int path = 0;
    if (sscanf(line, "run %u", &count) == 1 && count <= REQUEST_BYTES) {
        receive(bytes, count);
        bytes[count] = '\0';
        size_t number = 0;
        for (char* at = bytes; at < bytes + count && number < MOST_ARGUMENTS;
             at += strlen(at) + 1) {
            arguments[number++] = at;
        }
        arguments[number] = NULL;
        run(arguments);
    } else if (sscanf(line, "append %u %n", &count, &path) == 1 && count <= REQUEST_BYTES) {
        receive(bytes, count);
        say("end exit %d\n", append(line + path, bytes, count));
    } else {
        errno = EPROTO;
        give_up(line);
    }
}

static void mount_all(void) {
    const char* const what[][2] = {{"proc", "/proc"},
                                   {"sysfs", "/sys"},
                                   {"devtmpfs", "/dev"},
                                   {"tmpfs", "/tmp"},
                                   {"debugfs", "/sys/kernel/debug"}};
    for (size_t i = 0; i < sizeof what / sizeof *what; ++i) {
        if (mount(what[i][0], what[i][1], what[i][0], 0, NULL) < 0) give_up(what[i][1]);
    }
}

int main(void) {
    mount_all();
    setenv("PATH", "/bin:/usr/bin:/sbin", 1);
    setenv("HOME", "/root", 1);
    char* const links[] = {"/bin/busybox", "--install", "-s", "/bin", NULL};
    struct sigaction action = {.sa_handler = reap};
    sigaction(SIGCHLD, &action, NULL);
    port = open("/dev/ttyS1", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (port < 0) give_up("/dev/ttyS1");
    struct termios raw;
    tcgetattr(port, &raw);
    cfmakeraw(&raw);
    raw.c_cflag |= CLOCAL;
    tcsetattr(port, TCSANOW, &raw);
    if (fork() == 0) {
        execv(links[0], links);
        _exit(127);
    }
    while (wait(NULL) > 0) continue;
    struct utsname system_name;
    uname(&system_name);
    say("ready %s\n", system_name.release);
    for (;;) serve();
}
