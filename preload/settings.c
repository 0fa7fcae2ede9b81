#include "preload/settings.h"

#include <stdio.h>
#include <string.h>

struct settings settings;

enum { LEAST_LARGE = 4096, LINE = 64 };
static const uint64_t MOST_PERIOD = UINT64_C(1) << 30, MOST_CACHE = UINT64_C(1) << 40;

static const char* const kind_names[PAGE_KINDS] = {"1g", "2m", "thp", "4k"};

const char* page_kind_name(enum page_kind kind) { return kind_names[kind]; }

/* Reads decimal digits and nothing else. False for other text and for values above `most`. */
static bool number(const char* text, size_t length, uint64_t most, uint64_t* value) {
    *value = 0;
    if (length == 0 || length > 18) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        *value = *value * 10 + (uint64_t)(text[i] - '0');
    }
    return *value <= most;
}

static bool page_kind(const char* text, size_t length, enum page_kind* kind) {
    for (int i = 0; i < PAGE_KINDS; i++)
        if (strlen(kind_names[i]) == length && strncmp(kind_names[i], text, length) == 0) {
            *kind = (enum page_kind)i;
            return true;
        }
    return false;
}

static bool take(const char* key, size_t key_length, const char* text, size_t length,
                 struct settings* into) {
    uint64_t value;
#define IS(name) (key_length == sizeof(name) - 1 && memcmp(key, name, sizeof(name) - 1) == 0)
    if (IS("pages")) return page_kind(text, length, &into->pages);
    if (IS("main")) return number(text, length, INT_MAX, &value) && (into->main = (pid_t)value) > 0;
    if (IS("large")) {
        if (!number(text, length, PTRDIFF_MAX, &value) || value < LEAST_LARGE) return false;
        into->large = value;
        return true;
    }
    if (IS("period")) {
        if (!number(text, length, MOST_PERIOD, &value)) return false;
        if (value & (value - 1) || (value != 0 && value < 2 * LINE)) return false;
        into->period = value;
        return true;
    }
    if (IS("cache")) {
        if (!number(text, length, MOST_CACHE, &value) || value & (((uint64_t)1 << 21) - 1))
            return false;
        into->cache = value;
        return true;
    }
    if (IS("guest") || IS("json")) {
        if (!number(text, length, 1, &value)) return false;
        *(IS("guest") ? &into->guest : &into->json) = value != 0;
        return true;
    }
#undef IS
    return false;
}

const char* settings_parse(const char* text, struct settings* into) {
    static char wrong[128];
    *into = (struct settings){.pages = PAGES_4K, .large = 128 << 10};
    while (*text != '\0') {
        const size_t key_length = strcspn(text, "=,");
        if (strncmp(text, "report=", 7) == 0) {
            if (strlen(text + 7) >= sizeof into->path) return "the report's path is too long";
            strcpy(into->path, text + 7);
            into->report = true;
            return NULL;
        }
        const size_t length = strcspn(text, ",");
        if (text[key_length] != '=' ||
            !take(text, key_length, text + key_length + 1, length - key_length - 1, into)) {
            snprintf(wrong, sizeof wrong, "'%.*s' is not understood",
                     length < 60 ? (int)length : 60, text);
            for (char* at = wrong; *at; at++)
                if (*at < ' ' || *at > '~') *at = '?'; /* it may be shown on a terminal */
            return wrong;
        }
        text += length + (text[length] == ',');
    }
    return NULL;
}
