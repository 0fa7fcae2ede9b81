/* Keeps records in mapped chunks of a file, so that a killed process loses none. */
#ifndef PAGELENS_IORECORD_LOG_H
#define PAGELENS_IORECORD_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "iorecord/record.h"

enum { MOST_TEXT = 4096 };

/* Begins to record into files in `folder`. */
void log_open(const char* folder);

/* Whether operations are recorded. In the child of a fork, the first call begins the child's log.
 */
bool log_is_open(void);

/* A number that differs in each child of a fork. */
unsigned log_lifetime(void);

/* Room for a record and `texts` more of the calling thread, all zero; NULL if there is none. The
 * caller fills it and calls log_publish. */
struct record* log_take(unsigned texts);

void log_publish(struct record* record, enum record_kind kind);

/* Writes a record with a text behind it. `filled` gives all but kind, thread, cpu and texts. */
void log_with_text(enum record_kind kind, const struct record* filled, const char* text);

/* Called in the child of a fork before anything is recorded there. */
extern void (*log_forked)(void);

#endif
