/* A text that grows. If memory runs out, what is added is dropped. */
#ifndef PAGELENS_RUN_TEXT_H
#define PAGELENS_RUN_TEXT_H

#include <stddef.h>

struct text {
    char* bytes;
    size_t length, room;
};

void text_add(struct text* text, const char* format, ...) __attribute__((format(printf, 2, 3)));
void text_add_string(struct text* text, const char* string); /* as a JSON string */

/* A size in bytes as text, such as "1.2 GiB". */
struct shown {
    char text[16];
};
struct shown size_shown(size_t bytes);
#define SHOW(bytes) size_shown(bytes).text

#endif
