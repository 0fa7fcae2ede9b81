#define _GNU_SOURCE
#include "preload/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/blocks.h"
#include "preload/counts.h"
#include "preload/errors.h"
#include "preload/frames.h"
#include "preload/plan.h"
#include "preload/planned.h"
#include "preload/planned_report.h"
#include "preload/spans.h"
#include "preload/system.h"
#include "preload/text.h"
#include "preload/transparent.h"

static pid_t prepared_by;

void report_prepared(void) {
    prepared_by = getpid();
    if (settings.report) errors_kept();
}

/* The process's MPI rank. Open MPI, MPICH and its relatives, PMIx and Slurm pass it in these
 * variables. */
static const char* rank(void) {
    static const char* const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char* value = getenv(names[i]);
        if (value != NULL && *value && strlen(value) < 12 &&
            strspn(value, "0123456789") == strlen(value))
            return value;
    }
    return NULL;
}

/* Replaces %r and %p in `settings.path`. Without a rank, %r becomes the process number, too. */
static bool expand(char* into, size_t room) {
    char process[16];
    snprintf(process, sizeof process, "%d", (int)getpid());
    size_t length = 0;
    for (const char* at = settings.path; *at; at++) {
        const char one[2] = {*at, '\0'};
        const char* piece = one;
        if (at[0] == '%' && (at[1] == 'r' || at[1] == 'p')) {
            piece = at[1] == 'r' && rank() ? rank() : process;
            at++;
        }
        if (length + strlen(piece) >= room) return false;
        strcpy(into + length, piece);
        length += strlen(piece);
    }
    into[length] = '\0';
    return true;
}

static const char* const kinds_shown[PAGE_KINDS] = {
    "on 1 GiB pages of the pool", "on 2 MiB pages of the pool",
    "on transparent huge pages where there are", "on pages as they come"};

/* Percent of the pages whose frames were chosen. */
static double share(size_t pages) {
    return frames_result.pages ? 100.0 * (double)pages / (double)frames_result.pages : 0;
}

static void in_words(struct text* text) {
    text_add(text, "pagelens run: %s (process %d%s%s): %zu large block%s, of %s and more",
             program_invocation_short_name, (int)getpid(), rank() ? ", rank " : "",
             rank() ? rank() : "", counts.blocks, counts.blocks == 1 ? "" : "s",
             SHOW(settings.large));
    if (counts.blocks > 0)
        text_add(text, "; at the peak %zu with %s", counts.peak_blocks, SHOW(counts.peak_bytes));
    text_add(text, "\n");
    for (int kind = 0; kind < PAGE_KINDS; kind++)
        if (counts.peak_mapped[kind] > 0)
            text_add(text, "  %s %s\n", SHOW(counts.peak_mapped[kind]), kinds_shown[kind]);
    if (counts.seen > 0)
        text_add(text, "  transparent huge pages: %.0f%% of the %s that were in use\n",
                 100.0 * (double)counts.seen_huge / (double)counts.seen, SHOW(counts.seen));
    if (counts.mappings > 0)
        text_add(
            text,
            "  %zu mappings of the program's own, %s, on transparent huge pages where there are\n",
            counts.mappings, SHOW(counts.mapping_bytes));
    if (settings.period > 0)
        text_add(text, "  staggered: %zu blocks, by up to %s of a period of %s\n", counts.staggered,
                 SHOW(counts.most_offset), SHOW(settings.period));
    if (frames_result.pages > 0)
        text_add(
            text,
            "  conflict share: %.1f%%, %.1f%% with the frames that came first; of %s in a cache of "
            "%s%s\n"
            "  frames: %zu exchanged, %zu looked at, in %.1f s\n",
            share(frames_result.sharing), share(frames_result.sharing_first),
            SHOW(frames_result.pages << 12), SHOW(settings.cache),
            settings.guest ? " (frames of a virtual machine: the host's decide)" : "",
            frames_result.exchanged, frames_result.tried, 1e-9 * (double)frames_result.nanoseconds);
    planned_in_words(text);
    if (counts.peak_bytes > 0)
        text_add(text, "  outside of blocks, at the peak: %s\n", SHOW(counts.peak_gaps));
    if (counts.refused > 0)
        text_add(text, "  %zu blocks left to the program's allocator\n", counts.refused);
    if (counts.forks > 0)
        text_add(text, "  forks: %zu, for which %s on pages of the pool were copied\n",
                 counts.forks, SHOW(counts.copied));
    if (counts.while_forking > 0)
        text_add(text,
                 "  %zu blocks, mappings and moves left as they came, while the process forked\n",
                 counts.while_forking);
}

static void add_bytes_by_kind(struct text* text, const char* name, const size_t* bytes) {
    text_add(text, ", \"%s\": {", name);
    for (int kind = 0; kind < PAGE_KINDS; kind++)
        text_add(text, "%s\"%s\": %zu", kind ? ", " : "", page_kind_name((enum page_kind)kind),
                 bytes[kind]);
    text_add(text, "}");
}

static void in_json(struct text* text) {
    text_add(text, "{\"schema\": \"pagelens run\", \"version\": 1, \"program\": ");
    text_add_string(text, program_invocation_name);
    text_add(text, ", \"process\": %d, \"rank\": %s", (int)getpid(), rank() ? rank() : "null");
    text_add(text, ", \"pages\": \"%s\", \"large_bytes\": %zu", page_kind_name(settings.pages),
             settings.large);
    text_add(text, ", \"blocks\": %zu, \"bytes\": %zu", counts.blocks, counts.bytes);
    text_add(text, ", \"peak_blocks\": %zu, \"peak_bytes\": %zu", counts.peak_blocks,
             counts.peak_bytes);
    add_bytes_by_kind(text, "peak_bytes_on", counts.peak_mapped);
    text_add(text, ", \"peak_bytes_outside_blocks\": %zu", counts.peak_gaps);
    text_add(text, ", \"transparent\": {\"seen_bytes\": %zu, \"huge_bytes\": %zu}", counts.seen,
             counts.seen_huge);
    text_add(text, ", \"mappings\": {\"count\": %zu, \"bytes\": %zu}", counts.mappings,
             counts.mapping_bytes);
    text_add(text, ", \"stagger\": {\"period_bytes\": %zu, \"blocks\": %zu, \"most_bytes\": %zu}",
             settings.period, counts.staggered, counts.most_offset);
    text_add(text,
             ", \"frames\": {\"cache_bytes\": %" PRIu64 ", \"frames_of\": \"%s\", \"pages\": %zu",
             settings.cache, settings.guest ? "guest" : "machine", frames_result.pages);
    text_add(text,
             ", \"sharing_first\": %zu, \"sharing\": %zu, \"looked_at\": %zu, \"exchanged\": %zu",
             frames_result.sharing_first, frames_result.sharing, frames_result.tried,
             frames_result.exchanged);
    text_add(text, ", \"seconds\": %.6f}", 1e-9 * (double)frames_result.nanoseconds);
    text_add(text, ", \"refused_blocks\": %zu", counts.refused);
    text_add(text,
             ", \"forks\": {\"count\": %zu, \"copied_bytes\": %zu, \"left_as_they_came\": %zu}",
             counts.forks, counts.copied, counts.while_forking);
    planned_in_json(text);
    text_add(text, ", \"said\": [");
    const char* said;
    for (size_t i = 0; (said = said_line(i)) != NULL; i++) {
        if (i > 0) text_add(text, ", ");
        text_add_string(text, said);
    }
    text_add(text, "]}\n");
}

static bool write_all(int file, const struct text* text) {
    for (size_t at = 0; at < text->length;) {
        const ssize_t wrote = write(file, text->bytes + at, text->length - at);
        if (wrote < 0 && errno != EINTR) return false;
        if (wrote > 0) at += (size_t)wrote;
    }
    return true;
}

/* Writes the file under another name first, so that nobody reads a part of it. */
static bool write_file(const char* path, const struct text* text) {
    char partial[PATH_MAX + 16];
    snprintf(partial, sizeof partial, "%s.partial", path);
    const int file = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return false;
    const bool written = write_all(file, text);
    return close(file) == 0 && written && rename(partial, path) == 0;
}

static void write_report(const struct text* text) {
    if (*settings.path == '\0') {
        write_all(errors_file(), text);
        return;
    }
    char path[PATH_MAX];
    if (!expand(path, sizeof path) || !write_file(path, text))
        say_once("--report %s: cannot be written (%s)", settings.path, strerror(errno));
}

/* A program's helper processes do not report, unless they had large blocks or are in the plan. */
__attribute__((destructor)) static void report(void) {
    if (!settings.report || prepared_by != getpid()) return;
    if (settings.main != 0 && settings.main != getpid() && counts.blocks == 0 && !plan_active)
        return;
    static struct text text;
    const int state = cancelling_off();
    if (plan_active) planned_look_at_all();
    blocks_look();
    for (const struct span* span = spans_first(); span; span = span->after) transparent_look(span);
    blocks_looked();
    (settings.json ? in_json : in_words)(&text);
    write_report(&text);
    cancelling_back(state);
}
