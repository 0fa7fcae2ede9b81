/* Four ranks wait for some of the others in each way that MPI has, and each time for what is
 * written beside the call. */
#include <mpi.h>
#include <stdio.h>
#if MPI_VERSION < 4
#include <mpi-ext.h> /* Open MPI's, before its version 5 */
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Reduce_init MPIX_Reduce_init
#define MPI_Exscan_init MPIX_Exscan_init
#define MPI_Allreduce_init MPIX_Allreduce_init
#define MPI_Neighbor_alltoall_init MPIX_Neighbor_alltoall_init
#endif

enum { DOUBLES = 1 << 15, LONG = 1 << 13, MANY = 150 };

static double array[DOUBLES], value = 1, got[4], sent_long[LONG], got_long[LONG], many[MANY];
static int rank, ranks, next, last;
static MPI_Request requests[4];
static MPI_Status status;

static void work(void) {
    for (int i = 1; i < DOUBLES; ++i) array[i] = 0.5 * array[i - 1] + array[i];
}

/* Rank 1 uses a copy of the communicator before the communicator itself. */
static void copy_first(void) {
    MPI_Comm copy;
    if (rank == 0) MPI_Send(&value, 1, MPI_DOUBLE, 1, 12, MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (rank == 1) MPI_Recv(&value, 1, MPI_DOUBLE, 0, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
}

/* One rank works after the other. */
static void chain(void) {
    for (int step = 0; step < 4; ++step) {
        const int from = step % 2 ? MPI_ANY_SOURCE : last, tag = step % 2 ? MPI_ANY_TAG : 3;
        if (rank > 0)
            MPI_Recv(&value, 1, MPI_DOUBLE, from, tag, MPI_COMM_WORLD,
                     step < 2 ? &status : MPI_STATUS_IGNORE);
        work();
        if (rank + 1 < ranks) MPI_Send(&value, 1, MPI_DOUBLE, next, 3, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void requests_of_both_neighbours(void) {
    MPI_Irecv(&got[0], 1, MPI_DOUBLE, next, 4, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&got[1], 1, MPI_DOUBLE, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&value, 1, MPI_DOUBLE, last, 4, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&value, 1, MPI_DOUBLE, next, 5, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

/* The second of two receives is waited for first. */
static void out_of_order(void) {
    int index, flag = 0;
    for (int i = 0; i < 2; ++i)
        MPI_Irecv(&got[i], 1, MPI_DOUBLE, last, 6, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 2; ++i) MPI_Send(&value, 1, MPI_DOUBLE, next, 6, MPI_COMM_WORLD);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    while (!flag) MPI_Testany(2, requests, &index, &flag, &status);
}

static void persistent(void) {
    MPI_Send_init(&value, 1, MPI_DOUBLE, next, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(&got[0], 1, MPI_DOUBLE, last, 7, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; ++i) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
}

static void others(void) {
    int flag = 0;
    MPI_Message message;
    MPI_Sendrecv(&value, 1, MPI_DOUBLE, next, 8, &got[0], 1, MPI_DOUBLE, last, 8, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Isend(&value, 1, MPI_DOUBLE, next, 9, MPI_COMM_WORLD, &requests[0]);
    while (!flag)
        MPI_Improbe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(&got[0], 1, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(&value, 1, MPI_DOUBLE, next, 10, last, 10, MPI_COMM_WORLD, &status);
}

/* Three receives are cancelled before anything is sent, and one when its message has come. */
static void cancelled(void) {
    MPI_Irecv(&got[0], 1, MPI_DOUBLE, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; ++i)
        MPI_Irecv(&got[i], 1, MPI_DOUBLE, last, 11, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 2; ++i) {
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; ++i) MPI_Send(&value, 1, MPI_DOUBLE, next, 11, MPI_COMM_WORLD);
    MPI_Probe(last, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Irecv(&got[0], 1, MPI_DOUBLE, last, 11, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Recv(&got[0], 1, MPI_DOUBLE, last, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void collective(void) {
    MPI_Comm pair, same;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &pair);
    MPI_Comm_dup(pair, &same);
    MPI_Allreduce(&value, &got[0], 1, MPI_DOUBLE, MPI_SUM, pair);
    MPI_Barrier(same);
    MPI_Bcast(&value, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    MPI_Reduce(&value, &got[0], 1, MPI_DOUBLE, MPI_SUM, 0, pair);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Scan(&value, &got[0], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_free(&same);
    MPI_Comm_free(&pair);
}

/* Each rank waits for all before it: rank 3 first for the second scan. */
static void prefixes(void) {
    double sums[2];
    MPI_Iscan(&value, &sums[0], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Iexscan(&value, &sums[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[rank == 3], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[rank != 3], MPI_STATUS_IGNORE);
}

/* All of them are started twice. Rank 2 starts them in another order. */
static void persistent_collective(void) {
    enum { CALLS = 5 };
    const int whole = 1;
    double in[] = {1, 2}, out[CALLS][2];
    MPI_Request all[CALLS];
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &whole, 0, &ring);
    MPI_Bcast_init(out[0], 1, MPI_DOUBLE, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &all[0]);
    MPI_Reduce_init(in, out[1], 1, MPI_DOUBLE, MPI_SUM, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &all[1]);
    MPI_Exscan_init(in, out[2], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &all[2]);
    MPI_Allreduce_init(in, out[3], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &all[3]);
    MPI_Neighbor_alltoall_init(in, 1, MPI_DOUBLE, out[4], 1, MPI_DOUBLE, ring, MPI_INFO_NULL,
                               &all[4]);
    for (int turn = 0; turn < 2; ++turn) {
        if (rank == 2)
            for (int i = CALLS - 1; i >= 0; --i) MPI_Start(&all[i]);
        else
            MPI_Startall(CALLS, all);
        MPI_Waitall(CALLS, all, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < CALLS; ++i) MPI_Request_free(&all[i]);
    MPI_Comm_free(&ring);
}

/* Even ranks and odd ones. Each exchanges a message with one of the other group, waits for that
 * group, and rank 2 gets something from all odd ones. */
static void two_groups(void) {
    MPI_Comm half, both;
    const int is_odd = rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, is_odd, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - is_odd, 24, &both);
    MPI_Sendrecv(&value, 1, MPI_DOUBLE, rank / 2, 23, &got[0], 1, MPI_DOUBLE,
                 is_odd ? MPI_ANY_SOURCE : rank / 2, 23, both, MPI_STATUS_IGNORE);
    MPI_Barrier(both);
    MPI_Gather(&value, 1, MPI_DOUBLE, got, 1, MPI_DOUBLE,
               is_odd      ? 1
               : rank == 2 ? MPI_ROOT
                           : MPI_PROC_NULL,
               both);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

/* A send waits for its receive if it is synchronous or the message is long. */
static void sends_that_wait(void) {
    for (int turn = 0; turn < 2; ++turn) {
        if (turn == rank % 2) {
            MPI_Ssend(&value, 1, MPI_DOUBLE, next, 13, MPI_COMM_WORLD);
            MPI_Send(sent_long, LONG, MPI_DOUBLE, next, 14, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&got[0], 1, MPI_DOUBLE, last, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(got_long, LONG, MPI_DOUBLE, MPI_ANY_SOURCE, 14, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
    for (int turn = 0; turn < 2; ++turn) { /* the second receive comes where the first one came */
        for (int i = 0; i < 2; ++i) {
            if (turn == rank % 2) {
                MPI_Send(sent_long, LONG, MPI_DOUBLE, next, 20, MPI_COMM_WORLD);
                continue;
            }
            MPI_Irecv(got_long, LONG, MPI_DOUBLE, i == 0 ? last : MPI_ANY_SOURCE, 20,
                      MPI_COMM_WORLD, &requests[0]);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        }
    }
    MPI_Irecv(got_long, LONG, MPI_DOUBLE, last, 15, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent_long, LONG, MPI_DOUBLE, next, 15, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Ssend_init(&value, 1, MPI_DOUBLE, next, 16, MPI_COMM_WORLD, &requests[0]);
    MPI_Start(&requests[0]);
    MPI_Recv(&got[0], 1, MPI_DOUBLE, last, 16, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Sendrecv(sent_long, LONG, MPI_DOUBLE, next, 17, got_long, LONG, MPI_DOUBLE, last, 17,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#if MPI_VERSION >= 4
    MPI_Isendrecv(sent_long, LONG, MPI_DOUBLE, next, 18, got_long, LONG, MPI_DOUBLE, last, 18,
                  MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Isendrecv_replace(&value, 1, MPI_DOUBLE, next, 18, last, 18, MPI_COMM_WORLD, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Irecv_c(got_long, LONG, MPI_DOUBLE, last, 18, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_c(sent_long, LONG, MPI_DOUBLE, next, 18, MPI_COMM_WORLD);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
#endif
}

/* MPICH lets a program send nothing, of no type. */
static void of_no_type(void) {
#ifdef MPICH_VERSION
    MPI_Sendrecv(NULL, 0, MPI_DATATYPE_NULL, next, 21, NULL, 0, MPI_DATATYPE_NULL, last, 21,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#endif
}

static void many_requests(void) {
    MPI_Request all[2 * MANY];
    int index, indices[2 * MANY], done = 0, now;
    for (int i = 0; i < MANY; ++i) {
        MPI_Irecv(&many[i], 1, MPI_DOUBLE, MPI_ANY_SOURCE, 19, MPI_COMM_WORLD, &all[2 * i]);
        MPI_Isend(&value, 1, MPI_DOUBLE, next, 19, MPI_COMM_WORLD, &all[2 * i + 1]);
    }
    MPI_Waitany(2 * MANY, all, &index, MPI_STATUS_IGNORE);
    while (done < MANY) { /* the other half are sends, of which one may have ended before */
        MPI_Waitsome(2 * MANY, all, &now, indices, MPI_STATUSES_IGNORE);
        if (now == MPI_UNDEFINED) break;
        done += now;
    }
    MPI_Waitall(2 * MANY, all, MPI_STATUSES_IGNORE);
}

static void neighbours(void) {
    const int whole = 1, sources[] = {last}, destinations[] = {next};
    double in[] = {1, 2};
    MPI_Comm ring, one_way;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &whole, 0, &ring);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 1, destinations,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &one_way);
    MPI_Neighbor_allgather(&value, 1, MPI_DOUBLE, got, 1, MPI_DOUBLE, ring);
    MPI_Ineighbor_alltoall(in, 1, MPI_DOUBLE, got, 1, MPI_DOUBLE, one_way, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Comm_free(&ring);
    MPI_Comm_free(&one_way);
}

/* All meet at the second fence. Then each rank writes to the next one, and all meet at the end. */
static void windows(void) {
    MPI_Group all, of_next, of_last;
    MPI_Win window;
    MPI_Win_create(got, sizeof got, sizeof *got, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    MPI_Put(&value, 1, MPI_DOUBLE, next, 0, 1, MPI_DOUBLE, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &next, &of_next);
    MPI_Group_incl(all, 1, &last, &of_last);
    MPI_Win_post(of_last, 0, window);
    MPI_Win_start(of_next, 0, window);
    MPI_Put(&value, 1, MPI_DOUBLE, next, 1, 1, MPI_DOUBLE, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    MPI_Group_free(&all);
    MPI_Group_free(&of_next);
    MPI_Group_free(&of_last);
    MPI_Win_free(&window);
}

/* All meet where the file is opened, set up, written twice, read and closed, and Open MPI's in the
 * sync. */
static void files(void) {
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, "mpi_waits.data",
                  MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_set_view(file, rank * (MPI_Offset)sizeof value, MPI_DOUBLE, MPI_DOUBLE, "native",
                      MPI_INFO_NULL);
    MPI_File_write_all(file, &value, 1, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_write_ordered_begin(file, &value, 1, MPI_DOUBLE);
    MPI_File_write_ordered_end(file, &value, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_File_iread_at_all(file, 0, &got[0], 1, MPI_DOUBLE, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

/* Each receiver waits for the last partition, and each sender for the start of the receive. */
static void partitioned(void) {
#if MPI_VERSION >= 4
    const int last_one[] = {2};
    int has_arrived;
    MPI_Psend_init(sent_long, 3, 1, MPI_DOUBLE, next, 22, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[0]);
    MPI_Precv_init(got_long, 3, 1, MPI_DOUBLE, last, 22, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[1]);
    for (int i = 0; i < 2; ++i) {
        MPI_Startall(2, requests);
        MPI_Pready(0, requests[0]);
        MPI_Pready_range(1, 1, requests[0]);
        MPI_Pready_list(1, last_one, requests[0]);
        MPI_Parrived(requests[1], 0, &has_arrived);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
#endif
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    next = (rank + 1) % ranks;
    last = (rank + ranks - 1) % ranks;
    copy_first();
    chain();
    requests_of_both_neighbours();
    out_of_order();
    persistent();
    others();
    cancelled();
    collective();
    prefixes();
    persistent_collective();
    two_groups();
    sends_that_wait();
    of_no_type();
    many_requests();
    neighbours();
    windows();
    files();
    partitioned();
    if (rank == 0) printf("%g %g\n", array[DOUBLES - 1], got[0]);
    MPI_Finalize();
    return 0;
}
