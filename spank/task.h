/* What a task is given: the preload library, and what the library is told. */
#ifndef PAGELENS_SPANK_TASK_H
#define PAGELENS_SPANK_TASK_H

#include <slurm/spank.h>

#include "options.h"

/* Where pagelens is installed on the nodes: the words of the plugin's line in plugstack.conf. */
struct task_files {
    char library[PATH_MAX]; /* library=PATH: libpagelens_run.so */
    char command[PATH_MAX]; /* command=PATH: pagelens */
    char
        config[PATH_MAX]; /* config=PATH: the site's configuration, where it is not the usual one */
};

/* The step as users see it, "0" or "script"; with `job`, "12.0". */
void step_name(spank_t spank, char* into, size_t room, bool job);

void task_files_read(struct task_files* files, int count, char** words);

/* Sets the task's environment. Whatever fails is a line in the log, and the task runs without it.
 */
void task_prepare(spank_t spank, const struct options* options, const struct task_files* files);

#endif
