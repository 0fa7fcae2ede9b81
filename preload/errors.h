/* Access to the stderr that the process began with. */
#ifndef PAGELENS_RUN_ERRORS_H
#define PAGELENS_RUN_ERRORS_H

void errors_prepared(void); /* call once, at the start */

/* Duplicates the descriptor, because some programs close stderr before they end, as coreutils do.
 */
void errors_kept(void);

/* A descriptor that leads there, or -1 if the process has none any more. */
int errors_file(void);

/* Call in the child of a fork: closes the duplicate, so that the child can close its stderr for
 * good. */
void errors_forked(void);

#endif
