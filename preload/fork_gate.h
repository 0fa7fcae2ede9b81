/*
 * A gate that a fork closes. A thread is inside the gate while it changes the library's data. A
 * fork begins when no thread is inside, so it finds all data consistent and all locks open, in the
 * parent and in the child.
 *
 * After the library's own preparations a fork waits for others: for fork handlers that run later,
 * and for the locks of stdio and of malloc's arenas. A thread that holds such a lock may call the
 * library, even from a signal handler. If it waited for the fork, both would wait for ever. So no
 * thread waits during this time: it may only look at the library's data. Memory that it asks for
 * comes from the next allocator or the kernel, and memory that it gives back is noted (deferred.h).
 *
 * Two waits remain, and both are short. A fork waits for the threads inside, which wait only for
 * each other and the kernel. Other threads wait while a fork copies pages, when it waits for nobody
 * but those inside.
 */
#ifndef PAGELENS_RUN_FORK_GATE_H
#define PAGELENS_RUN_FORK_GATE_H

#include <stdbool.h>

/* How many times this thread has entered the gate, or is about to. A signal handler that finds it
 * above 0 must not use the library, since it may have interrupted a thread that holds a lock. It
 * lies in the static TLS block, where access never allocates. */
extern _Thread_local volatile int inside __attribute__((tls_model("initial-exec")));

/* Enters to change something. While a fork waits it returns false, and the thread is not inside.
 * Calls may nest. */
bool gate_enter(void);

/* Enters to look at something; the thread is inside in any case. True if data may change meanwhile,
 * by this thread or others, so that their locks are needed. False while a fork waits: then locks
 * must not be taken. */
bool gate_look(void);

/* The same answer for a thread that is inside already. */
bool gate_may_change(void);

void gate_leave(void);

/* The functions below are for the thread that forks. */

/* Waits until no other thread is inside; threads that come later wait. Returns false, and does
 * nothing, in a signal handler that has interrupted this thread inside the gate or during its fork.
 */
bool gate_close(void);
void gate_show(void);           /* others may enter to look */
void gate_hide(void);           /* others wait again, and none is inside */
void gate_open(void);           /* others may change data again */
void gate_hide_in_child(void);  /* in place of gate_hide() */
void gate_reset_in_child(void); /* where gate_close() was false */

#endif
