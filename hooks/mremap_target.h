/* Reads mremap's optional last argument, for a preloaded library that defines the function itself.
 */
#ifndef PAGELENS_MREMAP_TARGET_H
#define PAGELENS_MREMAP_TARGET_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first header"
#endif
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

/* Where the mapping is to go, from the arguments after `flags`. NULL without MREMAP_FIXED, when
 * there need not be one. */
static inline void* mremap_target(int flags, va_list given) {
    return flags & MREMAP_FIXED ? va_arg(given, void*) : NULL;
}

#endif
