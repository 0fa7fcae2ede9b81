/*
 * A program may close any descriptor, as daemons do, and then gets its number again for a file of
 * its own. The library must not write into that file. So before it writes, it checks that the
 * descriptor still leads to the file that stderr was at the start.
 */
#define _GNU_SOURCE
#include "preload/errors.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

/* Far from the numbers that the program's files get; usually there are 1024. */
enum { FAR = 700 };

static struct stat start;
static bool known;
static int second = -1;

static bool is_stderr(int file) {
    struct stat now;
    return known && file >= 0 && fstat(file, &now) == 0 && now.st_dev == start.st_dev &&
           now.st_ino == start.st_ino;
}

void errors_prepared(void) { known = fstat(STDERR_FILENO, &start) == 0; }

void errors_kept(void) { second = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, FAR); }

int errors_file(void) {
    if (is_stderr(STDERR_FILENO)) return STDERR_FILENO;
    return is_stderr(second) ? second : -1;
}

void errors_forked(void) {
    if (is_stderr(second)) close(second);
    second = -1;
}
