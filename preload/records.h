/* Memory for the library's own notes on spans and ranges: taken and given back with the lock held.
 */
#ifndef PAGELENS_RUN_RECORDS_H
#define PAGELENS_RUN_RECORDS_H

enum { RECORD_BYTES = 128 };

void* record_take(void); /* zeroed; NULL without memory */
void record_give(void* record);

#endif
