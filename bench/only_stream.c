/* hpcc has no switch for its tests: under this, only arrays of about STREAM_BYTES get memory, and
 * tests that want others say so and end, HPL of a minute among them. */

#include <errno.h>
#include <stdlib.h>

void* __libc_malloc(size_t bytes);

void* malloc(size_t bytes) {
    if (bytes > (size_t)16 << 20) {
        const char* const text = getenv("STREAM_BYTES");
        const double share = text == NULL ? 1 : (double)bytes / strtod(text, NULL);
        if (share < 0.99 || share > 1.01) {
            errno = ENOMEM;
            return NULL;
        }
    }
    return __libc_malloc(bytes);
}
