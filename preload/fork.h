/* What happens to the pool's pages when the process forks (docs/decisions/preload.md). */
#ifndef PAGELENS_RUN_FORK_H
#define PAGELENS_RUN_FORK_H

void fork_prepared(void); /* call once, at the start */

#endif
