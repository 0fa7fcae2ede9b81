#define _GNU_SOURCE
#include "sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Becomes the sampler. It has none of slurmstepd's files, because srun waits until these are
 * closed, and an environment of its own. */
static void become(const struct task_files* files, const char* step, const char* stepd) {
    char* const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", NULL};
    char* const words[] = {(char*)files->command, "site",       "sample",
                           (char*)step,           (char*)stepd, "--config",
                           (char*)files->config,  NULL};
    const int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++) dup2(null, i);
    close_range(3, ~0U, 0);
    setsid();
    execve(files->command, words, environment);
    _exit(127);
}

void sampler_start(spank_t spank, const struct task_files* files) {
    char step[48], stepd[16];
    step_name(spank, step, sizeof step, true);
    snprintf(stepd, sizeof stepd, "%d", (int)getpid());
    const pid_t child = fork();
    if (child == 0) { /* its child is nobody's, so that slurmstepd does not wait for it */
        if (fork() == 0) become(files, step, stepd);
        _exit(0);
    }
    if (child < 0)
        slurm_error("pagelens: no sampler (%s); the page has no frames", strerror(errno));
    else
        waitpid(child, NULL, 0);
}
