#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SECONDS = 86400 };

static bool copy(const char* text, char* into, size_t room) {
    const int length = snprintf(into, room, "%s", text);
    return length > 0 && (size_t)length < room;
}

static bool one_of(const char* const* words, const char* value) {
    for (; *words != NULL; words++)
        if (strcmp(*words, value) == 0) return true;
    return false;
}

static bool take_zonesort(const char* value, bool here, char* into, size_t room) {
    static const char* const words[] = {"on", "off", NULL};
    (void)here;
    if (one_of(words, value)) return copy(value, into, room);
    const size_t digits = strspn(value, "0123456789");
    if (digits == 0 || digits > 5 || value[digits] != '\0') return false;
    const long seconds = strtol(value, NULL, 10);
    if (seconds < 1 || seconds > MOST_SECONDS) return false;
    return snprintf(into, room, "%ld", seconds) > 0;
}

static bool take_pages(const char* value, bool here, char* into, size_t room) {
    static const char* const words[] = {"4k", "thp", "2m", "1g", NULL};
    (void)here;
    return one_of(words, value) && copy(value, into, room);
}

/* A path without characters that end a line or a setting somewhere on its way. */
static bool plain(const char* path) {
    for (; *path != '\0'; path++)
        if ((unsigned char)*path < ' ' || *path == '\x7f') return false;
    return true;
}

static bool take_plan(const char* value, bool here, char* into, size_t room) {
    if (!here) return plain(value) && copy(value, into, room);
    char whole[PATH_MAX];
    struct stat status;
    if (realpath(value, whole) == NULL || stat(whole, &status) != 0) return false;
    return S_ISREG(status.st_mode) && access(whole, R_OK) == 0 && plain(whole) &&
           copy(whole, into, room);
}

static bool take_report(const char* value, bool here, char* into, size_t room) {
    /* Without a value; "(null)" is what Slurm 22.05 hands on to the steps of a script. */
    if (*value == '\0' || strcmp(value, "(null)") == 0) value = ".";
    if (!here) return plain(value) && copy(value, into, room);
    char whole[PATH_MAX];
    struct stat status;
    if (realpath(value, whole) == NULL || stat(whole, &status) != 0) return false;
    return S_ISDIR(status.st_mode) && access(whole, W_OK | X_OK) == 0 && plain(whole) &&
           copy(whole, into, room);
}

const struct option_description option_descriptions[OPTIONS] = {
    [ZONESORT] = {"zonesort", "on|off|SECONDS",
                  "sort the node's free memory before the job, and every SECONDS during it", false,
                  "PAGELENS_ZONESORT", "on, off, or seconds from 1 to 86400", take_zonesort},
    [PAGES] = {"pagelens-pages", "4k|thp|2m|1g", "put large blocks of memory on such pages", false,
               "PAGELENS_PAGES", "4k, thp, 2m or 1g", take_pages},
    [PLAN] = {"pagelens-plan", "FILE", "put objects in fast memory as `pagelens place` planned",
              false, "PAGELENS_PLAN", "a plan that `pagelens place` wrote and that you may read",
              take_plan},
    [REPORT] = {"pagelens-report", "DIR",
                "write a page on the job's placement to DIR (default: the working directory)", true,
                "PAGELENS_REPORT", "a directory that exists and that you may write to",
                take_report},
};
