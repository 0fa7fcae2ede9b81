/*
 * A handle of a communicator says nothing to another rank. So its name is made of its ranks, and of
 * how many communicators with just these ranks were there before: their ranks make communicators
 * together, so they agree on that number. Where there are two groups of ranks, the one whose first
 * rank is the lower one comes first, and OTHER_GROUP lies between them.
 */
#include "hooks/mpi_communicators.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "hooks/mpi_turns.h"

enum { OTHER_GROUP = -1 };
enum { MOST_COMMUNICATORS = 1 << 12, MOST_GROUPS = 1 << 10, MOST_RANKS = 1 << 20 };

struct group {
    uint64_t hash;
    int first, size; /* among `ranks` */
    uint64_t communicators;
};

/* Pages that are never used cost nothing. */
static struct mpi_communicator communicators[MOST_COMMUNICATORS]; /* size 0: not in use */
static int communicators_end;                                     /* behind the last one used */
static struct group groups[MOST_GROUPS];
static int group_count;
static int ranks[MOST_RANKS];
static int rank_count;

static uint64_t mix(uint64_t hash, uint64_t value) { /* FNV-1a, of words */
    hash = (hash ^ value) * 0x100000001b3;
    return hash ^ hash >> 29;
}

/* Returns the group of so many ranks, which lie behind those in use; NULL: there is no room. */
static struct group* group_of(int size) {
    const int* const own = ranks + rank_count;
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < size; ++i) hash = mix(hash, (uint64_t)own[i]);
    for (struct group* known = groups; known < groups + group_count; ++known)
        if (known->hash == hash && known->size == size &&
            memcmp(ranks + known->first, own, (size_t)size * sizeof *own) == 0)
            return known;
    if (group_count == MOST_GROUPS) return NULL;
    struct group* const new = &groups[group_count++];
    *new = (struct group){hash, rank_count, size, 0};
    rank_count += size;
    return new;
}

/* Asks MPI for the ranks of a group, and writes them behind so many others that are not in use yet.
 * Handles fill a long or its first half. Returns how many they are; 0 if that is not possible. */
static int ask_for_ranks(const struct mpi_library* mpi, long group, int others) {
    int* const of_world = ranks + rank_count + others;
    int size = 0;
    mpi->group_size(group, (long)&size, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (size <= 0 || rank_count + others + 2 * size > MOST_RANKS) return 0;
    int* const counted = of_world + size; /* is needed for this call alone */
    for (int i = 0; i < size; ++i) counted[i] = i;
    long world = 0;
    mpi->comm_group(mpi->world, (long)&world, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    mpi->group_translate_ranks(group, size, (long)counted, world, (long)of_world, 0, 0, 0, 0, 0, 0,
                               0, 0);
    mpi->group_free((long)&world, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    for (int i = 0; i < size; ++i) {
        if (of_world[i] >= 0) continue;
        mpi_tell_strangers();
        return 0;
    }
    return size;
}

/* Fills in the ranks and the name of a communicator. Returns whether that is possible. */
static bool name_one_group(const struct mpi_library* mpi, struct mpi_communicator* its) {
    long own = 0;
    mpi->comm_group(its->handle, (long)&own, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    its->size = its->other_count = ask_for_ranks(mpi, own, 0);
    mpi->group_free((long)&own, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    struct group* const group = its->size ? group_of(its->size) : NULL;
    if (group == NULL) return false;
    its->ranks = its->others = ranks + group->first;
    its->name = mix(group->hash, ++group->communicators);
    return true;
}

static bool name_two_groups(const struct mpi_library* mpi, struct mpi_communicator* its) {
    long own = 0, other = 0;
    int* const first = ranks + rank_count;
    mpi->comm_group(its->handle, (long)&own, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    mpi->comm_remote_group(its->handle, (long)&other, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    its->size = ask_for_ranks(mpi, own, 0);
    const int own_first = *first;
    its->other_count = its->size ? ask_for_ranks(mpi, other, 0) : 0;
    const bool is_own_first = own_first < *first;
    struct group* group = NULL;
    if (its->other_count) {
        const int between = ask_for_ranks(mpi, is_own_first ? own : other, 0);
        if (ask_for_ranks(mpi, is_own_first ? other : own, between + 1)) {
            first[between] = OTHER_GROUP;
            group = group_of(its->size + 1 + its->other_count);
        }
    }
    mpi->group_free((long)&own, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    mpi->group_free((long)&other, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (group == NULL) return false;
    const int* const found = ranks + group->first;
    its->ranks = is_own_first ? found : found + its->other_count + 1;
    its->others = is_own_first ? found + its->size + 1 : found;
    its->name = mix(group->hash, ++group->communicators);
    return true;
}

const int* mpi_ranks_of(const struct mpi_library* mpi, long group, int* size) {
    const int count = ask_for_ranks(mpi, group, 0);
    const struct group* const found = count ? group_of(count) : NULL;
    *size = found ? found->size : 0;
    return found ? ranks + found->first : NULL;
}

static struct mpi_communicator* find(const struct mpi_library* mpi, long handle) {
    struct mpi_communicator* room = NULL;
    if (handle == mpi->no_communicator) return NULL;
    /* All ranks name MPI_COMM_WORLD first: some may use another one of the same ranks before it. */
    if (communicators_end == 0 && handle != mpi->world) find(mpi, mpi->world);
    for (int i = 0; i < communicators_end; ++i) {
        if (communicators[i].size == 0)
            room = room ? room : &communicators[i];
        else if (communicators[i].handle == handle)
            return &communicators[i];
    }
    if (room == NULL) {
        if (communicators_end == MOST_COMMUNICATORS) return NULL;
        room = &communicators[communicators_end++];
    }
    int is_inter = 0;
    struct mpi_communicator new = {.handle = handle, .source_count = -1};
    mpi->comm_test_inter(handle, (long)&is_inter, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (!(is_inter ? name_two_groups(mpi, &new) : name_one_group(mpi, &new))) return NULL;
    mpi->comm_rank(handle, (long)&new.own_rank, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    *room = new;
    return room;
}

const struct mpi_communicator* mpi_communicator_of(const struct mpi_library* mpi, long handle) {
    return find(mpi, handle);
}

/* Writes the sources behind the ranks in use, as ranks of the communicator. Returns how many. */
static int ask_for_sources(const struct mpi_library* mpi, long handle, int own_rank) {
    int* const found = ranks + rank_count;
    const int room = MOST_RANKS - rank_count;
    int kind = 0, count = 0, others = 0, are_weighted = 0;
    mpi->topo_test(handle, (long)&kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (kind == mpi->cartesian) {
        mpi->cartdim_get(handle, (long)&count, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        if (2 * count > room) return 0;
        for (int i = 0; i < count; ++i)
            mpi->cart_shift(handle, i, 1, (long)&found[2 * i], (long)&found[2 * i + 1], 0, 0, 0, 0,
                            0, 0, 0, 0);
        return 2 * count;
    }
    if (kind == 1 || kind == 2) {
        mpi->graph_neighbors_count(handle, own_rank, (long)&count, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        if (count > room) return 0;
        mpi->graph_neighbors(handle, own_rank, count, (long)found, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        return count;
    }
    if (kind != 3) return 0; /* no MPI_DIST_GRAPH */
    mpi->dist_graph_neighbors_count(handle, (long)&count, (long)&others, (long)&are_weighted, 0, 0,
                                    0, 0, 0, 0, 0, 0, 0);
    if (2 * (count + others) > room) return 0;
    int* const weights = found + count; /* these and the others are needed for this call alone */
    mpi->dist_graph_neighbors(handle, count, (long)found, (long)weights, others,
                              (long)(weights + count), (long)(weights + count + others), 0, 0, 0, 0,
                              0, 0);
    return count;
}

const struct mpi_communicator* mpi_neighbours_of(const struct mpi_library* mpi, long handle) {
    struct mpi_communicator* const its = find(mpi, handle);
    if (its == NULL || its->source_count >= 0) return its;
    int* const sources = ranks + rank_count;
    const int asked = ask_for_sources(mpi, handle, its->own_rank);
    int count = 0;
    for (int i = 0; i < asked; ++i) { /* each once, and MPI_PROC_NULL never */
        if (sources[i] < 0 || sources[i] >= its->size) continue;
        const int source = its->ranks[sources[i]];
        int known = 0;
        while (known < count && sources[known] != source) ++known;
        if (known == count) sources[count++] = source;
    }
    its->sources = sources;
    its->source_count = count;
    rank_count += count;
    return its;
}

uint64_t mpi_name_of(uint64_t name, uint64_t number) { return mix(name, number); }

void mpi_communicator_gone(long handle) {
    for (int i = 0; i < communicators_end; ++i)
        if (communicators[i].handle == handle) communicators[i].size = 0;
}
