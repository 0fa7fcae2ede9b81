#define _GNU_SOURCE
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PLAN_SECONDS = 20,   /* longest that a task waits for its plan */
    NOBODY = 0x7fffffff, /* no process has this number: only programs with large blocks report */
    TEXT = 3 * PATH_MAX,
};

static bool word(const char* text, const char* key, char* into, size_t room) {
    const size_t length = strlen(key);
    if (strncmp(text, key, length) != 0 || text[length] != '=') return false;
    snprintf(into, room, "%s", text + length + 1);
    return true;
}

void task_files_read(struct task_files* files, int count, char** words) {
    strcpy(files->config, "/etc/pagelens/site.toml");
    for (int i = 0; i < count; i++)
        if (!word(words[i], "library", files->library, sizeof files->library) &&
            !word(words[i], "config", files->config, sizeof files->config) &&
            !word(words[i], "command", files->command, sizeof files->command))
            slurm_error(
                "pagelens: plugstack.conf: '%s' is none of library=PATH, command=PATH, config=PATH",
                words[i]);
}

static bool in_script(spank_t spank) {
    uint32_t step = 0;
    return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
           step == SLURM_BATCH_SCRIPT;
}

void step_name(spank_t spank, char* into, size_t room, bool job) {
    uint32_t job_number = 0, step = 0;
    spank_get_item(spank, S_JOB_ID, &job_number);
    spank_get_item(spank, S_JOB_STEPID, &step);
    int length = job ? snprintf(into, room, "%u.", job_number) : 0;
    snprintf(into + length, room - (size_t)length, in_script(spank) ? "script" : "%u", step);
}

static void set(spank_t spank, const char* name, const char* value) {
    if (spank_setenv(spank, name, value, 1) != ESPANK_SUCCESS)
        slurm_error("pagelens: %s cannot be set; the task runs without", name);
}

/* Puts `first` before what a variable holds already, with a colon between them. */
static void prepend(spank_t spank, const char* name, const char* first) {
    char before[TEXT] = "", both[TEXT + PATH_MAX];
    if (spank_getenv(spank, name, before, sizeof before) == ESPANK_NOSPACE) {
        slurm_error("pagelens: %s is too long; the task runs without pagelens", name);
        return;
    }
    if (strstr(before, first) != NULL) return; /* the job's script has it already */
    snprintf(both, sizeof both, "%s%s%s", first, *before ? ":" : "", before);
    set(spank, name, both);
}

static void milliseconds(long count) {
    const struct timespec pause = {.tv_nsec = count * 1000000};
    nanosleep(&pause, NULL);
}

/* The end of a child that may take PLAN_SECONDS; -1 if it had to be ended. */
static int wait_for(pid_t child) {
    int status;
    for (int i = 0; i < PLAN_SECONDS * 100; i++) {
        if (waitpid(child, &status, WNOHANG) == child) return status;
        milliseconds(10);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

/* Has `pagelens site plan` write what the library reads, and finds the file's name in its output.
 */
static bool plan_for_library(spank_t spank, const struct task_files* files, const char* plan,
                             char* into, size_t room) {
    int count = 0, ends[2];
    char **words = NULL, **environment = NULL;
    if (spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS || count < 1 ||
        spank_get_item(spank, S_JOB_ENV, &environment) != ESPANK_SUCCESS)
        return false;
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        char* const command[] = {(char*)files->command, "site",   "plan",
                                 (char*)plan,           words[0], NULL};
        execve(files->command, command, environment);
        _exit(127);
    }
    close(ends[1]);
    const int status = child < 0 ? -1 : wait_for(child);
    const ssize_t length = status == 0 ? read(ends[0], into, room - 1) : 0;
    close(ends[0]);
    if (length <= 0) return false;
    into[length] = '\0';
    into[strcspn(into, "\n")] = '\0';
    return into[0] == '/';
}

/* Where the reports of a job's tasks go, each a file: the Epilog makes a page of them. */
static bool report_to(spank_t spank, const char* folder, char* into, size_t room) {
    uint32_t job = 0;
    char step[32], whole[PATH_MAX];
    spank_get_item(spank, S_JOB_ID, &job);
    step_name(spank, step, sizeof step, false);
    if (realpath(folder, whole) == NULL) snprintf(whole, sizeof whole, "%s", folder);
    const int length = snprintf(into, room, "%s/.pagelens-%u", whole, job);
    if (length < 0 || (size_t)length >= room || (mkdir(into, 0777) != 0 && errno != EEXIST)) {
        slurm_error("pagelens: --pagelens-report: %s: %s; there will be no page", into,
                    strerror(errno));
        return false;
    }
    snprintf(into + length, room - (size_t)length, "/%s.%%r.%%p.json", step);
    return true;
}

static void settings_for_library(spank_t spank, const struct options* options, char* into,
                                 size_t room) {
    const char* pages = options->value[PAGES][0] ? options->value[PAGES] : "4k";
    const int length = snprintf(into, room, "main=%d,pages=%s,json=1",
                                in_script(spank) ? (int)NOBODY : (int)getpid(), pages);
    char reports[PATH_MAX];
    if (options->value[REPORT][0] != '\0' &&
        report_to(spank, options->value[REPORT], reports, sizeof reports))
        snprintf(into + length, room - (size_t)length, ",report=%s", reports);
}

void task_prepare(spank_t spank, const struct options* options, const struct task_files* files) {
    const char* pages = options->value[PAGES];
    const bool plan = options->value[PLAN][0] != '\0';
    const bool large = *pages && strcmp(pages, "4k") != 0;
    if (!large && !plan && options->value[REPORT][0] == '\0') return;
    if (access(files->library, R_OK) != 0) {
        slurm_error("pagelens: plugstack.conf: library=%s cannot be read; the task runs without",
                    files->library);
        return;
    }
    char text[TEXT];
    if (plan && plan_for_library(spank, files, options->value[PLAN], text, sizeof text))
        set(spank, "PAGELENS_PLAN", text);
    else if (plan)
        slurm_error("pagelens: --pagelens-plan: the task runs without the plan");
    settings_for_library(spank, options, text, sizeof text);
    set(spank, "PAGELENS_RUN", text);
    if (large) prepend(spank, "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    prepend(spank, "LD_PRELOAD", files->library);
}
