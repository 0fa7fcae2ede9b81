/* Reports what the library did, when the process ends. */
#ifndef PAGELENS_RUN_REPORT_H
#define PAGELENS_RUN_REPORT_H

void report_prepared(void); /* call once, at the start */

#endif
