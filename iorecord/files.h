/* Notes which file each descriptor leads to. */
#ifndef PAGELENS_IORECORD_FILES_H
#define PAGELENS_IORECORD_FILES_H

/* Records what the descriptor leads to, unless that is known. */
void file_seen(int descriptor);

/* The descriptor is about to lead elsewhere. */
void file_gone(int descriptor);
void files_gone(unsigned first, unsigned last);
void files_forked(void);

/* The second descriptor now leads where the first one does. */
void file_doubled(int descriptor, int second);

#endif
