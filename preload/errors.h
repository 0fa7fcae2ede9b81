/* stderr as it was when the process began. */
#ifndef PAGELENS_RUN_ERRORS_H
#define PAGELENS_RUN_ERRORS_H

void errors_prepared(void); /* once, at the start */

/* Some programs close stderr before they end, as coreutils do: keeps a second way to it. */
void errors_kept(void);

/* A descriptor for it; -1 where the process has none any more. */
int errors_file(void);

/* In the child of a fork, which must not keep open what it closes as its stderr. */
void errors_forked(void);

#endif
