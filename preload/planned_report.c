#define _GNU_SOURCE
#include "preload/planned_report.h"

#include "preload/budget.h"
#include "preload/moves.h"
#include "preload/object_nodes.h"
#include "preload/plan.h"
#include "preload/tally.h"

enum { SHOWN = 12 };
#define NO_CAPACITY (UINT64_C(1) << 62) /* what a plan without fast objects states */

static size_t seen_bytes(const struct nodes_seen* seen) { return seen->there + seen->elsewhere; }

/* Shows one object that had blocks. */
static void show(struct text* text, size_t index) {
    const struct planned_counts* counts = planned_counts(index);
    const struct planned_counts all = *counts;
    const size_t touched = seen_bytes(&all.to_be_fast) + seen_bytes(&all.others);
    text_add(text, "  %s: %zu block%s, %s at the peak", plan_name(plan_object(index)), all.blocks,
             all.blocks == 1 ? "" : "s", SHOW(all.peak_bytes));
    if (touched > 0 && object_has_rule((uint32_t)index)) {
        for (int node = 0; node < SHOWN_NODES; node++)
            if (all.on[node] > 0)
                text_add(text, "; %.0f%% on node %d",
                         100.0 * (double)all.on[node] / (double)touched, node);
    } else if (touched > 0)
        text_add(text, "; %.0f%% of its pages were to be fast, %.0f%% were",
                 100.0 * (double)seen_bytes(&all.to_be_fast) / (double)touched,
                 100.0 * (double)(all.to_be_fast.there + all.others.there) / (double)touched);
    if (all.short_bytes > 0)
        text_add(text, "; %s found no room in the capacity", SHOW(all.short_bytes));
    text_add(text, "\n");
}

/* Objects are shown by falling peak bytes. Returns the one after the object with so many bytes and
 * this index, or plan_objects() if there is none. */
static size_t next_largest(size_t bytes, size_t after) {
    size_t best = plan_objects(), most = 0;
    for (size_t i = 0; i < plan_objects(); i++) {
        const struct planned_counts* counts = planned_counts(i);
        const bool behind =
            counts->peak_bytes < bytes || (counts->peak_bytes == bytes && i > after);
        if (counts->blocks == 0 || !behind || (best < plan_objects() && counts->peak_bytes <= most))
            continue;
        best = i;
        most = counts->peak_bytes;
    }
    return best;
}

static void moves_in_words(struct text* text) {
    const struct moves_counts* moves = &moves_counts;
    if (plan_phases() == 0) return;
    text_add(
        text,
        "  moved between regions %zu times, in %.3f s: %s came where they were to, %s did not\n",
        moves->changes, 1e-9 * (double)moves->nanoseconds, SHOW(moves->moved_bytes),
        SHOW(moves->stayed_bytes));
    if (moves->skipped > 0) text_add(text, "  and %zu times not, to save time\n", moves->skipped);
}

void planned_in_words(struct text* text) {
    if (!plan_active) return;
    size_t with_blocks = 0, shown = 0;
    for (size_t i = 0; i < plan_objects(); i++) with_blocks += planned_counts(i)->blocks > 0;
    text_add(text, "  plan: %zu of %zu objects had blocks", with_blocks, plan_objects());
    if (plan_header()->capacity < NO_CAPACITY)
        text_add(text, "; at the peak %s of %s of fast memory", SHOW(budget_peak()),
                 SHOW(plan_header()->capacity));
    text_add(text, "\n");
    moves_in_words(text);
    size_t bytes = (size_t)-1, index = 0;
    while (shown++ < SHOWN && (index = next_largest(bytes, index)) < plan_objects()) {
        bytes = planned_counts(index)->peak_bytes;
        show(text, index);
    }
    if (with_blocks > SHOWN)
        text_add(text, "  and %zu more: --json has all\n", with_blocks - SHOWN);
}

static void add_seen(struct text* text, const char* name, const struct nodes_seen* seen) {
    text_add(text, ", \"%s\": {\"fast_bytes\": %zu, \"slow_bytes\": %zu, \"untouched_bytes\": %zu}",
             name, seen->there, seen->elsewhere, seen->absent);
}

static void add_nodes(struct text* text, const struct planned_counts* counts) {
    const char* separator = "";
    text_add(text, ", \"bytes_on_node\": {");
    for (int node = 0; node < SHOWN_NODES; node++) {
        if (counts->on[node] == 0) continue;
        text_add(text, "%s\"%d\": %zu", separator, node, counts->on[node]);
        separator = ", ";
    }
    text_add(text, "}");
}

void planned_in_json(struct text* text) {
    text_add(text, ", \"plan\": ");
    if (!plan_active) {
        text_add(text, "null");
        return;
    }
    text_add(text, "{\"capacity_bytes\": %zu, \"peak_fast_bytes\": %zu, \"objects\": [",
             (size_t)plan_header()->capacity, budget_peak());
    for (size_t i = 0; i < plan_objects(); i++) {
        const struct planned_counts* counts = planned_counts(i);
        text_add(text, "%s{\"name\": ", i ? ", " : "");
        text_add_string(text, plan_name(plan_object(i)));
        text_add(text,
                 ", \"share\": %.6g, \"blocks\": %zu, \"pooled_blocks\": %zu, \"mappings\": %zu",
                 plan_object(i)->share, counts->blocks, counts->small, counts->mappings);
        text_add(text,
                 ", \"bytes\": %zu, \"peak_bytes\": %zu, \"short_bytes\": %zu, \"looked_at\": %zu",
                 counts->bytes, counts->peak_bytes, counts->short_bytes, counts->looked);
        add_seen(text, "to_be_fast", &counts->to_be_fast);
        add_seen(text, "others", &counts->others);
        add_nodes(text, counts);
        text_add(text, "}");
    }
    text_add(text,
             "], \"moves\": {\"changes\": %zu, \"skipped\": %zu, \"borders\": %zu, "
             "\"moved_bytes\": %zu, "
             "\"stayed_bytes\": %zu, \"seconds\": %.6f}}",
             moves_counts.changes, moves_counts.skipped, moves_counts.blocks,
             moves_counts.moved_bytes, moves_counts.stayed_bytes,
             1e-9 * (double)moves_counts.nanoseconds);
}
