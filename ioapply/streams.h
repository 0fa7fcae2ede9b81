/* Larger buffers for the streams of stdio that a program writes. */
#ifndef PAGELENS_IOAPPLY_STREAMS_H
#define PAGELENS_IOAPPLY_STREAMS_H

#include <stdio.h>

/* Reads the settings, and enlarges the buffer of stdout. Without settings all streams keep theirs.
 */
void streams_begin(void);

/* A stream was opened, and nothing has been done with it. It may be NULL. */
void stream_opened(FILE* stream);

/* Return the place of a stream's buffer before the stream is closed, and let other streams have it
 * once that is done. */
int stream_place_closing(const FILE* stream);
void stream_place_free(int place);

#endif
