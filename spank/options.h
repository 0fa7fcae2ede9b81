/*
 * The options that the plugin adds to srun, sbatch and salloc, as a table: name, what users read,
 * and which values are valid. Nothing here knows Slurm.
 */
#ifndef PAGELENS_SPANK_OPTIONS_H
#define PAGELENS_SPANK_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum option { ZONESORT, PAGES, PLAN, REPORT, OPTIONS };

struct option_description {
    const char* name;
    const char* argument; /* what the help calls the value */
    const char* help;
    bool argument_optional;
    const char* variable; /* Prolog and Epilog read it as SPANK_ and this name */
    const char* allowed;  /* shown where a value is refused */
    /* Writes the value as it is passed on. False: it is refused. `here` is true where the user
     * submits: a path is then looked at, and made absolute. */
    bool (*take)(const char* value, bool here, char* into, size_t room);
};

extern const struct option_description option_descriptions[OPTIONS];

struct options {
    char value[OPTIONS][PATH_MAX]; /* empty: not given */
};

#endif
