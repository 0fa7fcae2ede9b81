#include "hooks/mpi_turns.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hooks/pagelens.h"

enum { PLACES = 1 << 15, MOST_TURNS = PLACES / 4 * 3 };

/* A table with open addressing. Pages that are never used cost nothing. */
static struct counter {
    struct mpi_turn next; /* its communicator is 0 where the place is free */
    enum mpi_direction direction;
    bool has_come; /* a receiver */
} counters[PLACES];
static unsigned used;

static struct counter* counter_of(const struct mpi_turn* turn, enum mpi_direction direction) {
    const uint64_t ranks = (uint64_t)(uint32_t)turn->from << 32 | (uint32_t)turn->to;
    uint64_t hash = turn->communicator ^ ranks * 0x9e3779b97f4a7c15;
    hash = (hash ^ hash >> 31 ^ (uint32_t)turn->tag) * 0xbf58476d1ce4e5b9 + direction;
    for (uint64_t place = (hash ^ hash >> 32) % PLACES;; place = (place + 1) % PLACES) {
        struct counter* const counter = &counters[place];
        if (counter->next.communicator == 0) return counter;
        if (counter->next.communicator == turn->communicator && counter->next.from == turn->from &&
            counter->next.to == turn->to && counter->next.tag == turn->tag &&
            counter->direction == direction)
            return counter;
    }
}

/* Returns NULL if there is no room. */
static struct counter* count(struct mpi_turn* turn, enum mpi_direction direction) {
    if (turn->communicator == 0) return NULL;
    struct counter* const counter = counter_of(turn, direction);
    if (counter->next.communicator == 0) {
        if (used == MOST_TURNS) {
            turn->communicator = 0;
            return NULL;
        }
        ++used;
        counter->next = *turn;
        counter->next.number = 0;
        counter->direction = direction;
    }
    turn->number = counter->next.number++;
    return counter;
}

void mpi_next_turn(struct mpi_turn* turn, enum mpi_direction direction) { count(turn, direction); }

bool mpi_next_receive(struct mpi_turn* turn, bool comes) {
    struct counter* const counter = count(turn, MPI_WAITS);
    if (counter == NULL) return false;
    counter->has_come |= comes;
    return counter->has_come;
}

void mpi_take_back(const struct mpi_turn* turn) {
    if (turn->communicator == 0) return;
    --counter_of(turn, MPI_WAITS)->next.number;
}

/* These write what printf would, in a fraction of the instructions, each of which is traced. */
static char* write_hexadecimal(char* at, uint64_t value) {
    for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[value >> shift & 15];
    return at;
}

static char* write_decimal(char* at, int value) {
    char digits[10];
    int count = 0;
    unsigned rest = value < 0 ? -(unsigned)value : (unsigned)value;
    do digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *at++ = '-';
    while (count > 0) *at++ = digits[--count];
    return at;
}

/* The name of the meeting's place ends at `end`. */
static void ring(const struct pagelens_meeting* meeting, const char* end) {
    struct pagelens_record record = {PAGELENS_MEETING, (uintptr_t)meeting,
                                     (uint64_t)(end - (const char*)meeting)};
    pagelens_ring(&record);
}

static void tell(const struct mpi_turn* turn, bool comes, bool waits, bool sends) {
    if (turn->communicator == 0) return;
    struct pagelens_meeting meeting;
    meeting.turn = turn->number;
    meeting.comes = comes;
    meeting.waits = waits;
    meeting.sends = sends;
    char* at = write_hexadecimal(meeting.place, turn->communicator);
    const int numbers[] = {turn->from, turn->to, turn->tag};
    for (int i = 0; i < 3; ++i) {
        *at++ = ' ';
        at = write_decimal(at, numbers[i]);
    }
    ring(&meeting, at);
}

void mpi_tell(const struct mpi_turn* turn, bool comes, bool waits) {
    tell(turn, comes, waits, false);
}

void mpi_tell_send(const struct mpi_turn* turn, bool comes, bool waits) {
    tell(turn, comes, waits, waits);
}

/* Tells of a place that nobody comes to. Its name says it (pagelens/accesses/rank_meetings.py). */
void mpi_tell_strangers(void) {
    static const char name[] = "ranks of another MPI_COMM_WORLD";
    static bool is_told;
    if (is_told) return;
    is_told = true;
    struct pagelens_meeting meeting = {.turn = 0};
    memcpy(meeting.place, name, sizeof name - 1);
    ring(&meeting, meeting.place + sizeof name - 1);
}
