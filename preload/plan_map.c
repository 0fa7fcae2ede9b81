#define _GNU_SOURCE
#include "preload/plan_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/system.h"

const void* plan_part(const struct plan_header* header, const struct plan_part* of) {
    return (const char*)header + of->at;
}

static bool fits(const struct plan_header* header, const struct plan_part* of, size_t element) {
    return of->at % 8 == 0 && of->at <= header->bytes &&
           of->count <= (header->bytes - of->at) / element;
}

static bool parts_fit(const struct plan_header* header) {
    return fits(header, &header->modules, sizeof(struct plan_module)) &&
           fits(header, &header->places, sizeof(struct plan_place)) &&
           fits(header, &header->steps, sizeof(struct plan_step)) &&
           fits(header, &header->objects, sizeof(struct plan_object)) &&
           fits(header, &header->variables, sizeof(struct plan_variable)) &&
           fits(header, &header->phases, sizeof(struct plan_phase)) &&
           fits(header, &header->shares, sizeof(double)) &&
           fits(header, &header->hooks, sizeof(struct plan_hook)) &&
           fits(header, &header->strings, 1);
}

static bool is_share(double value) { return value >= 0 && value <= 1; }

static bool modules_sound(const struct plan_header* header) {
    const struct plan_module* module = plan_part(header, &header->modules);
    for (uint64_t i = 0; i < header->modules.count; i++, module++)
        if (module->path >= header->strings.count || module->first > header->places.count ||
            module->places > header->places.count - module->first)
            return false;
    const struct plan_hook* hook = plan_part(header, &header->hooks);
    for (uint64_t i = 0; i < header->hooks.count; i++, hook++)
        if (hook->module >= header->modules.count || hook->address % sizeof(void*) != 0)
            return false;
    return true;
}

/* Steps that follow a step must have higher numbers, so that no walk goes in circles. */
static bool steps_sound(const struct plan_header* header) {
    const struct plan_step* step = plan_part(header, &header->steps);
    for (uint64_t i = 0; i < header->steps.count; i++, step++)
        if (step->object > header->objects.count || step->first > header->steps.count ||
            step->count > header->steps.count - step->first || (step->count && step->first <= i))
            return false;
    return header->steps.count > 0;
}

static bool objects_sound(const struct plan_header* header) {
    const uint64_t phases = header->phases.count, shares = header->shares.count;
    const struct plan_object* object = plan_part(header, &header->objects);
    for (uint64_t i = 0; i < header->objects.count; i++, object++)
        if (object->name >= header->strings.count || !is_share(object->share) ||
            (object->row > 0 && (phases == 0 || object->row > shares / phases)) ||
            object->rule >= RULES ||
            (object->rule != RULE_FAST && (object->share != 1 || object->row > 0)))
            return false;
    const struct plan_variable* variable = plan_part(header, &header->variables);
    for (uint64_t i = 0; i < header->variables.count; i++, variable++)
        if (variable->module >= header->modules.count || variable->object >= header->objects.count)
            return false;
    return true;
}

static bool phases_sound(const struct plan_header* header) {
    const struct plan_phase* phase = plan_part(header, &header->phases);
    for (uint64_t i = 0; i < header->phases.count; i++, phase++)
        if (phase->name >= header->strings.count ||
            phase->bytes > header->strings.count - phase->name)
            return false;
    const double* share = plan_part(header, &header->shares);
    for (uint64_t i = 0; i < header->shares.count; i++)
        if (!is_share(share[i])) return false;
    return header->phases.count <= MOST_PHASES;
}

static bool sound(const struct plan_header* header) {
    if (memcmp(header->magic, PLAN_MAGIC, sizeof header->magic) != 0 || !parts_fit(header))
        return false;
    const uint64_t strings = header->strings.count;
    const char* string = plan_part(header, &header->strings);
    return strings > 0 && string[strings - 1] == '\0' && modules_sound(header) &&
           steps_sound(header) && objects_sound(header) && phases_sound(header);
}

const struct plan_header* plan_map(const char* path) {
    const int from = open(path, O_RDONLY | O_CLOEXEC);
    struct stat found;
    const bool there = from >= 0 && fstat(from, &found) == 0;
    const size_t bytes = there && found.st_size > 0 ? (size_t)found.st_size : 0;
    void* at = MAP_FAILED;
    if (bytes >= sizeof(struct plan_header))
        at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, from, 0);
    const int why = there ? 0 : errno;
    if (from >= 0) close(from);
    if (at == MAP_FAILED) {
        say_once("the plan %s cannot be read (%s); the program runs without it", path,
                 why ? strerror(why) : "it is none");
        return NULL;
    }
    const struct plan_header* header = at;
    if (header->bytes == bytes && sound(header)) return header;
    unmap_memory(at, bytes);
    say_once("the plan %s is damaged; the program runs without it", path);
    return NULL;
}
