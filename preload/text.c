#define _GNU_SOURCE
#include "preload/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/system.h"

enum { LEAST_ROOM = 16 << 10 };

/* The memory is not from malloc, because at the end of a program its heap may be in any state. */
static bool grow(struct text* text, size_t needed) {
    size_t room = text->room ? text->room : LEAST_ROOM;
    while (room < needed) room *= 2;
    void* at = map_memory(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    if (at == MAP_FAILED) return false;
    if (text->bytes) {
        memcpy(at, text->bytes, text->length + 1);
        unmap_memory(text->bytes, text->room);
    }
    text->bytes = at;
    text->room = room;
    return true;
}

void text_add(struct text* text, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int more = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (more < 0) return;
    const size_t needed = text->length + (size_t)more + 1;
    if (needed > text->room && !grow(text, needed)) return;
    va_start(arguments, format);
    vsnprintf(text->bytes + text->length, text->room - text->length, format, arguments);
    va_end(arguments);
    text->length += (size_t)more;
}

void text_add_string(struct text* text, const char* string) {
    text_add(text, "\"");
    for (; *string; string++)
        if (*string == '"' || *string == '\\' || (unsigned char)*string < ' ')
            text_add(text, "\\u%04x", (unsigned char)*string);
        else
            text_add(text, "%c", *string);
    text_add(text, "\"");
}

struct shown size_shown(size_t bytes) {
    static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    struct shown shown;
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(shown.text, sizeof shown.text, "%.*f %s", value < 9.95 && unit > 0, value,
             units[unit]);
    return shown;
}
