/*
 * The Slurm plugin: users state with srun, sbatch and salloc what is to be done about their job's
 * memory. The values are checked where the job is submitted, and reach the Prolog, the Epilog and
 * the tasks. Only a bad value, at submission, ends anything; all other errors are a line in a log.
 */
#include <slurm/spank.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "sampler.h"
#include "task.h"

SPANK_PLUGIN(pagelens, 1)

static struct options options;
static struct task_files files;

/* Whether this is srun, sbatch or salloc. */
static bool submitting(void) {
    const spank_context_t context = spank_context();
    return context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR;
}

/* Whether a bad value can be refused. The steps of a job inherit its options; these fail no step.
 */
static bool may_refuse(void) { return submitting() && getenv("SLURM_JOB_ID") == NULL; }

static int take(int option, const char* value, int remote) {
    const struct option_description* which = &option_descriptions[option];
    const bool here = !remote && submitting();
    if (value == NULL) value = "";
    if (which->take(value, here, options.value[option], sizeof options.value[option]))
        return ESPANK_SUCCESS;
    options.value[option][0] = '\0';
    slurm_error("--%s=%s: give %s", which->name, value, which->allowed);
    return may_refuse() ? ESPANK_BAD_ARG : ESPANK_SUCCESS;
}

static void register_options(spank_t spank) {
    for (int i = 0; i < OPTIONS; i++) {
        const struct option_description* which = &option_descriptions[i];
        struct spank_option option = {.name = (char*)which->name,
                                      .arginfo = (char*)which->argument,
                                      .usage = (char*)which->help,
                                      .has_arg = which->argument_optional ? 2 : 1,
                                      .val = i,
                                      .cb = take};
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
            slurm_error("pagelens: the option --%s cannot be had", which->name);
    }
}

/* Hands the values to the Prolog and the Epilog, and to steps that the job's script starts. */
static void pass_on(spank_t spank) {
    for (int i = 0; i < OPTIONS; i++) {
        const char* name = option_descriptions[i].variable;
        if (options.value[i][0] == '\0') continue;
        if (spank_job_control_setenv(spank, name, options.value[i], 1) != ESPANK_SUCCESS)
            slurm_error("pagelens: --%s does not reach the node", option_descriptions[i].name);
    }
}

int slurm_spank_init(spank_t spank, int count, char** words) {
    register_options(spank);
    task_files_read(&files, count, words);
    return ESPANK_SUCCESS;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char** words) {
    (void)count, (void)words;
    if (submitting()) pass_on(spank);
    return ESPANK_SUCCESS;
}

/* In the task's own process and with the user's rights, just before the program takes its place. */
int slurm_spank_task_init(spank_t spank, int count, char** words) {
    (void)count, (void)words;
    if (spank_context() == S_CTX_REMOTE) task_prepare(spank, &options, &files);
    return ESPANK_SUCCESS;
}

/* In slurmstepd, as root, when a task's process is there. One sampler looks at all tasks of a step.
 */
int slurm_spank_task_post_fork(spank_t spank, int count, char** words) {
    (void)count, (void)words;
    int task = -1;
    if (spank_context() == S_CTX_REMOTE && options.value[REPORT][0] != '\0' &&
        spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && task == 0)
        sampler_start(spank, &files);
    return ESPANK_SUCCESS;
}
