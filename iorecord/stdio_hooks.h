/* The reads and writes that stdio makes, which call no function that a library can define. */
#ifndef PAGELENS_IORECORD_STDIO_HOOKS_H
#define PAGELENS_IORECORD_STDIO_HOOKS_H

/* Makes glibc call this library when a stream reads, writes, seeks or closes. Does nothing where
 * glibc's table of these functions is not the one that is known. */
void stdio_hooked(void);

#endif
