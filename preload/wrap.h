/* What the two files that programs call into share. */
#ifndef PAGELENS_RUN_WRAP_H
#define PAGELENS_RUN_WRAP_H

#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))
enum { PAGE_BYTES = 4096 };

extern bool active; /* the settings are valid */

#endif
