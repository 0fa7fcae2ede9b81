/* The process whose operations are recorded. */
#ifndef PAGELENS_IORECORD_PROCESS_H
#define PAGELENS_IORECORD_PROCESS_H

#include <stdbool.h>

/* Whether this is the process of the log, and not a child of its vfork. */
bool in_own_process(void);

#endif
