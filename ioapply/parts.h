/* Direct writes that several threads share. */
#ifndef PAGELENS_IOAPPLY_PARTS_H
#define PAGELENS_IOAPPLY_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ioapply/descriptors.h"

enum { MOST_THREADS = 16, BOUNCE_BYTES = 4 << 20, STACK_BYTES = 64 << 10 };
enum { MEMORY_BYTES = BOUNCE_BYTES + MOST_THREADS * STACK_BYTES };

/* Reads the settings. Without them the calling thread writes all. */
void parts_begin(void);

/* Writes whole blocks, by several threads if they lie within the file, and returns when all of them
 * have ended. `memory` has MEMORY_BYTES for the threads and for data that are not aligned.
 * Returns how many bytes from the begin on were written, which may be fewer. errno means nothing.
 */
size_t write_in_parts(const struct direct_file* direct, const char* buffer, size_t size,
                      off64_t offset, char* memory);

#endif
