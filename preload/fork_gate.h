/*
 * A gate that forks close. Who changes anything of ours is inside, and a fork begins when nobody
 * is: so it finds all notes whole and all locks open, here and in the child, and needs none of
 * them.
 *
 * From then on until the process has forked, the fork waits for others: for handlers of fork that
 * run after ours, for the locks of stdio and of malloc's arenas. Who holds what it waits for may
 * ask us for something, even for memory in a handler of signals. So nobody waits for a fork:
 * meanwhile one may only look. What is asked for then is the next allocator's or the kernel's, what
 * is given back is noted (deferred.h).
 *
 * Waited for are, briefly: those inside, who wait for nothing but each other and the kernel; and a
 * fork that is at work itself, as it copies, which waits for nobody but those inside.
 */
#ifndef PAGELENS_RUN_FORK_GATE_H
#define PAGELENS_RUN_FORK_GATE_H

#include <stdbool.h>

/* How often this thread is inside, or about to be. A handler of signals that finds it so asks for
 * nothing of ours: it may have interrupted the thread with a lock. In the static TLS block:
 * reaching it never allocates. */
extern _Thread_local volatile int inside __attribute__((tls_model("initial-exec")));

/* To change something; false, and not inside, while another thread forks or this one does. Within
 * each other as often as wanted. */
bool gate_enter(void);

/* To look at something; inside in any case. Whether things may change meanwhile, by this thread or
 * others: then their locks are needed. While a fork waits they must not be taken. */
bool gate_look(void);

/* The same, of a thread that is inside. */
bool gate_may_change(void);

void gate_leave(void);

/* The fork's. Nobody else is inside from then on, others wait; false, and nothing is done, in a
 * handler that has interrupted this thread inside, or as it forks. */
bool gate_close(void);
void gate_show(void);           /* others may look */
void gate_hide(void);           /* no longer: nobody else is inside, others wait */
void gate_open(void);           /* as ever */
void gate_hide_in_child(void);  /* in place of gate_hide() */
void gate_reset_in_child(void); /* where gate_close() was false: no other thread is inside */

#endif
