/* Memory for the library's own records of spans and ranges. Callers hold the lock of blocks.c. */
#ifndef PAGELENS_RUN_RECORDS_H
#define PAGELENS_RUN_RECORDS_H

enum { RECORD_BYTES = 128 };

void* record_take(void); /* filled with zeros; NULL without memory */
void record_give(void* record);

#endif
