/* A table with open addressing: a request lies at the first free place from its own on. */
#include "hooks/mpi_requests.h"

#include <stddef.h>
#include <stdint.h>

enum { PLACES = 1 << 14, MOST_REQUESTS = PLACES / 2 };

static struct mpi_request requests[PLACES]; /* pages that are never used cost nothing */
static unsigned used;

static unsigned own_place(long handle) {
    return (unsigned)((uint64_t)handle * 0x9e3779b97f4a7c15 >> 50) % PLACES;
}

static unsigned place_of(long handle) {
    unsigned place = own_place(handle);
    while (requests[place].kind != MPI_NO_REQUEST && requests[place].handle != handle)
        place = (place + 1) % PLACES;
    return place;
}

void mpi_add_request(const struct mpi_request* request) {
    struct mpi_request* const place = &requests[place_of(request->handle)];
    if (place->kind == MPI_NO_REQUEST && used++ == MOST_REQUESTS) {
        --used;
        return;
    }
    *place = *request;
}

struct mpi_request* mpi_find_request(long handle) {
    struct mpi_request* const place = &requests[place_of(handle)];
    return place->kind == MPI_NO_REQUEST ? NULL : place;
}

/* Moves those back that are further from their own places than the free one is. */
void mpi_remove_request(long handle) {
    unsigned free = place_of(handle);
    if (requests[free].kind == MPI_NO_REQUEST) return;
    --used;
    for (unsigned next = (free + 1) % PLACES; requests[next].kind != MPI_NO_REQUEST;
         next = (next + 1) % PLACES) {
        const unsigned from_own = (next - own_place(requests[next].handle)) % PLACES;
        if (from_own < (next - free) % PLACES) continue;
        requests[free] = requests[next];
        free = next;
    }
    requests[free].kind = MPI_NO_REQUEST;
}

void mpi_receive_earlier(const struct mpi_turn* turn) {
    for (struct mpi_request* request = requests; request < requests + PLACES; ++request) {
        struct mpi_turn* const its = &request->receive.turn;
        if (request->kind == MPI_RECEIVE && request->is_active && !request->receive.is_any &&
            its->communicator == turn->communicator && its->from == turn->from &&
            its->to == turn->to && its->tag == turn->tag && its->number > turn->number)
            --its->number;
    }
}
