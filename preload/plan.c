#define _GNU_SOURCE
#include "preload/plan.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "hooks/runtime_libraries.h"
#include "preload/intervals.h"
#include "preload/plan_map.h"

enum { MOST_LOADED = 512 };

bool plan_active;

static const struct plan_header* header;

/* A file that is loaded when the process begins. The plan does not cover files that are loaded
 * later. */
struct loaded {
    uintptr_t start, end, bias;
    uintptr_t data, data_end; /* the last writable segment */
    enum whose whose;
    const struct plan_module* module; /* NULL if the plan does not name it */
};
static struct loaded loaded[MOST_LOADED];
static size_t loaded_count;

static const void* part(const struct plan_part* of) { return plan_part(header, of); }

const struct plan_header* plan_header(void) { return header; }
size_t plan_objects(void) { return header ? header->objects.count : 0; }

const struct plan_object* plan_object(size_t index) {
    return (const struct plan_object*)part(&header->objects) + index;
}

static const char* string(uint64_t at) { return (const char*)part(&header->strings) + at; }
const char* plan_name(const struct plan_object* object) { return string(object->name); }

static const struct plan_module* module_of(const char* path) {
    struct stat one, other;
    if (stat(path, &one) != 0) return NULL;
    const struct plan_module* modules = part(&header->modules);
    for (uint64_t i = 0; i < header->modules.count; i++)
        if (stat(string(modules[i].path), &other) == 0 && one.st_dev == other.st_dev &&
            one.st_ino == other.st_ino)
            return &modules[i];
    return NULL;
}

static int add_loaded(struct dl_phdr_info* info, size_t size, void* nothing) {
    (void)size;
    (void)nothing;
    uintptr_t low = UINTPTR_MAX, high = 0, data = 0, data_end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD) continue;
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (start < low) low = start;
        if (start + segment->p_memsz > high) high = start + segment->p_memsz;
        if (segment->p_flags & PF_W) data = start, data_end = start + segment->p_memsz;
    }
    if (low >= high || loaded_count == MOST_LOADED) return 0;
    const bool is_ours = (uintptr_t)add_loaded - low < high - low;
    const char* path = *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
    const bool is_runtimes = *info->dlpi_name && is_runtime_library(path);
    const enum whose whose = is_ours ? WHOSE_OURS : is_runtimes ? WHOSE_RUNTIMES : WHOSE_PROGRAMS;
    loaded[loaded_count++] = (struct loaded){low,
                                             high,
                                             info->dlpi_addr,
                                             data,
                                             data_end,
                                             whose,
                                             whose == WHOSE_PROGRAMS ? module_of(path) : NULL};
    return 0;
}

static const struct loaded* loaded_of(const struct plan_module* module) {
    for (size_t i = 0; i < loaded_count; i++)
        if (loaded[i].module == module) return &loaded[i];
    return NULL;
}

void plan_open(const char* path) {
    const int saved_errno = errno;
    header = plan_map(path);
    if (header != NULL) {
        dl_iterate_phdr(add_loaded, NULL);
        for (size_t i = 0; i < loaded_count; i++) plan_active |= loaded[i].module != NULL;
    }
    errno = saved_errno;
}

/* The place of an address in one file; the address is relative to where the file is loaded. */
static struct where where_in(const struct plan_module* module, uint64_t address) {
    const struct plan_place* places =
        (const struct plan_place*)part(&header->places) + module->first;
    const size_t upto = intervals_upto(&places->low, sizeof *places, module->places, address);
    if (upto == 0 || address >= places[upto - 1].high)
        return (struct where){.whose = WHOSE_PROGRAMS};
    return (struct where){WHOSE_PROGRAMS, true, (uint32_t)places[upto - 1].number};
}

struct where plan_where(uintptr_t return_address) {
    for (size_t i = 0; i < loaded_count; i++) {
        const struct loaded* in = &loaded[i];
        /* A return address may be the first byte behind its function, but the call lies before it.
         */
        if (return_address - 1 - in->start >= in->end - in->start) continue;
        if (in->module == NULL) return (struct where){.whose = in->whose};
        return where_in(in->module, return_address - in->bias);
    }
    return (struct where){.whose = WHOSE_PROGRAMS};
}

const struct plan_step* plan_next(const struct plan_step* from, uint32_t place) {
    const struct plan_step* steps = part(&header->steps);
    if (from == NULL) from = steps;
    uint64_t low = from->first, high = low + from->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (steps[middle].place == place) return &steps[middle];
        if (steps[middle].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool plan_variable_loaded(size_t i, struct loaded_variable* variable) {
    const struct plan_variable* found = part(&header->variables);
    for (uint64_t at = 0; at < header->variables.count; at++) {
        const struct plan_module* module =
            (const struct plan_module*)part(&header->modules) + found[at].module;
        const struct loaded* in = loaded_of(module);
        if (in == NULL || i-- > 0) continue;
        *variable = (struct loaded_variable){in->bias + found[at].address, found[at].bytes,
                                             found[at].object};
        return true;
    }
    return false;
}

size_t plan_phases(void) { return header ? header->phases.count : 0; }

uint32_t plan_phase(const char* region, size_t bytes) {
    const struct plan_phase* phase = part(&header->phases);
    for (uint32_t i = 0; i < header->phases.count; i++)
        if (phase[i].bytes == bytes && memcmp(string(phase[i].name), region, bytes) == 0)
            return i + 1;
    return 0;
}

bool plan_moves(size_t object) { return plan_object(object)->row > 0; }

double plan_share(size_t object, size_t phase) {
    const struct plan_object* of = plan_object(object);
    if (phase == 0 || of->row == 0) return of->share;
    const double* shares = part(&header->shares);
    return shares[(of->row - 1) * header->phases.count + phase - 1];
}

pagelens_hook_function* volatile* plan_hook(size_t i) {
    const struct plan_hook* hook = part(&header->hooks);
    for (uint64_t at = 0; at < header->hooks.count; at++, hook++) {
        const struct loaded* in =
            loaded_of((const struct plan_module*)part(&header->modules) + hook->module);
        const uintptr_t start = in ? in->bias + hook->address : 0;
        if (in == NULL || start < in->data || start >= in->data_end ||
            hook->count > (in->data_end - start) / sizeof(void*))
            continue;
        if (i < hook->count) return (pagelens_hook_function* volatile*)start + i;
        i -= hook->count;
    }
    return NULL;
}
