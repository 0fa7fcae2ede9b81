/* Counts how often a rank has come to each place, and tells the tracer. Only one thread may be in
 * these functions. */
#ifndef PAGELENS_MPI_TURNS_H
#define PAGELENS_MPI_TURNS_H

#include <stdbool.h>
#include <stdint.h>

/* A place of meetings (core/accesses/meeting.hpp), and a turn there. */
struct mpi_turn {
    uint64_t communicator; /* 0: there is none to tell of */
    int from, to, tag;     /* ranks in MPI_COMM_WORLD; -1: all */
    uint32_t number;
};

struct mpi_receive {
    struct mpi_turn turn; /* without a number, if it takes messages of any source or tag */
    const int* ranks;     /* of the communicator, in MPI_COMM_WORLD */
    int size;
    bool is_any;
};

enum mpi_direction { MPI_COMES, MPI_WAITS, MPI_BOTH }; /* a receiver waits */

/* Gives the turn the next number of its place and direction. If there is no room for another place,
 * the turn is one of no communicator, of which nothing is told. */
void mpi_next_turn(struct mpi_turn* turn, enum mpi_direction direction);

/* Does so for a receive. Returns whether it or an earlier one comes to the place. */
bool mpi_next_receive(struct mpi_turn* turn, bool comes);

/* The program has cancelled this wait before it was over. */
void mpi_take_back(const struct mpi_turn* turn);

void mpi_tell(const struct mpi_turn* turn, bool comes, bool waits);

/* The same of a rank that sends the turn's message. */
void mpi_tell_send(const struct mpi_turn* turn, bool comes, bool waits);

/* The program has a communicator with ranks of another MPI_COMM_WORLD, whose calls are left out. */
void mpi_tell_strangers(void);

#endif
