/* What was done and what came of it, said when the process ends. */
#ifndef PAGELENS_RUN_REPORT_H
#define PAGELENS_RUN_REPORT_H

void report_prepared(void); /* once, at the start */

#endif
