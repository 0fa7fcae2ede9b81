/*
 * Whether this thread has a lock of ours. Handlers of signals may map memory and mark regions: one
 * that has interrupted this thread there would wait for it, or for who waits for it.
 */
#ifndef PAGELENS_RUN_INSIDE_H
#define PAGELENS_RUN_INSIDE_H

#include <pthread.h>

/* Locks that it has, or is about to have; those of a fork do not count while others' handlers of it
 * run. In the static TLS block. */
extern _Thread_local volatile int inside __attribute__((tls_model("initial-exec")));

static inline void inside_lock(pthread_mutex_t* mutex) {
    inside = inside + 1;
    pthread_mutex_lock(mutex);
}
static inline void inside_unlock(pthread_mutex_t* mutex) {
    pthread_mutex_unlock(mutex);
    inside = inside - 1;
}

#endif
