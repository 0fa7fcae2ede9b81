/* Finds the function that a wrapper of a preloaded library stands for. */
#ifndef PAGELENS_CALLING_LIBRARY_H
#define PAGELENS_CALLING_LIBRARY_H

/* Returns the function of that name that the code at `from` would call without this library, whose
 * own one is `wrapper`. Returns NULL if no library has one. */
void* next_function(const char* name, const void* from, const void* wrapper);

/* States the function that a wrapper is about to call; NULL: none. Returns the one before it, which
 * the wrapper states again when it is done. */
const void* enter_function(const void* next);

#endif
