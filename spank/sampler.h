/* The process that looks at the memory of a step's tasks while they run. */
#ifndef PAGELENS_SPANK_SAMPLER_H
#define PAGELENS_SPANK_SAMPLER_H

#include <slurm/spank.h>

#include "task.h"

/* Starts `pagelens site sample`, which ends with the step. A failure is a line in the log. */
void sampler_start(spank_t spank, const struct task_files* files);

#endif
