/*
 * Messages with one communicator, sender, receiver and tag arrive in the order of their sends, and
 * are given to the receives in the order in which those were posted (MPI 4.0, 3.5). So sends and
 * receives count by themselves, and those with one number belong together. A receive from any
 * source, or of any tag, counts when its status names them. If several of them that are under way
 * get messages from one sender, and end in another order, their numbers are exchanged.
 *
 * A send that waits for its receive waits at the place to which it comes itself. So a receive comes
 * there, too, when it is posted. A receive from any source comes when its call ends: only then is
 * it known to which place. If it is a request, it comes only where another receive came before, so
 * that a send waits for it there, and not for a later receive. Elsewhere no send waits for it.
 */
#define _GNU_SOURCE
#include "hooks/mpi_meetings.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hooks/mpi_requests.h"

enum { ANY_TAG = -1 }; /* in both libraries */

static const struct mpi_turn no_turn;

/* --- messages --- */

static struct mpi_turn sent(const struct mpi_communicator* its, int to, int tag) {
    if (its == NULL || to < 0 || to >= its->other_count) return no_turn;
    return (struct mpi_turn){its->name, its->ranks[its->own_rank], its->others[to], tag, 0};
}

enum mode { STANDARD, AT_ONCE, AHEAD };

/* Returns whether a send to the destination at this place waits for its receive. */
static bool waits_for_receive(const struct mpi_call* call, int destination, enum mode mode) {
    if (mode != STANDARD) return mode == AT_ONCE;
    const struct mpi_library* const mpi = call->library;
    const long type =
        mpi_handle(mpi, call->language, MPI_TYPE, mpi_argument(call, destination - 1));
    const long count = call->has_large_counts ? mpi_argument(call, destination - 2)
                                              : mpi_number(call, destination - 2);
    int bytes = 0; /* MPI_UNDEFINED, which is negative, if there are too many */
    /* Nothing may be sent with any type. To ask for the size of none would end the program. */
    if (count <= 0 || type == mpi->no_type) return false;
    mpi->type_size(type, (long)&bytes, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (bytes == 0) return false;
    return bytes < 0 || (unsigned long)count > mpi->eager_limit / (unsigned)bytes;
}

/* Numbers a send. If it waits for its receive, `call->sent` is its turn. */
static struct mpi_turn begin_send(struct mpi_call* call, int destination, int communicator_at,
                                  enum mode mode) {
    struct mpi_turn turn = sent(mpi_its_communicator(call, communicator_at),
                                mpi_number(call, destination), mpi_number(call, destination + 1));
    mpi_next_turn(&turn, MPI_COMES);
    call->sent = no_turn;
    if (turn.communicator && waits_for_receive(call, destination, mode)) call->sent = turn;
    return turn;
}

static void send(struct mpi_call* call, enum mode mode) {
    const struct mpi_turn turn = begin_send(call, 0, 2, mode);
    mpi_tell_send(&turn, true, call->sent.communicator != 0);
}

/* The rank goes on, and may wait for the receive later. */
static void start_send(struct mpi_call* call, int destination, int communicator_at,
                       enum mode mode) {
    const struct mpi_turn turn = begin_send(call, destination, communicator_at, mode);
    mpi_tell(&turn, true, false);
}

static struct mpi_receive received(const struct mpi_call* call, const struct mpi_communicator* its,
                                   int from, int tag) {
    struct mpi_receive receive = {.turn = no_turn};
    if (its == NULL) return receive;
    const bool from_any = from == call->library->any_source;
    if (!from_any && (from < 0 || from >= its->other_count)) return receive;
    receive.turn = (struct mpi_turn){its->name, from_any ? -1 : its->others[from],
                                     its->ranks[its->own_rank], tag, 0};
    receive.ranks = its->others;
    receive.size = its->other_count;
    receive.is_any = from_any || tag == ANY_TAG;
    return receive;
}

/* Numbers a receive when it is posted, if that is possible. */
static void post(struct mpi_receive* receive) {
    if (!receive->is_any) mpi_next_receive(&receive->turn, true);
}

static struct mpi_receive posted(const struct mpi_call* call, int from, int tag,
                                 int communicator_at) {
    struct mpi_receive receive = received(call, mpi_its_communicator(call, communicator_at),
                                          mpi_number(call, from), mpi_number(call, tag));
    post(&receive);
    return receive;
}

/* A receive from any source is over, which comes to its place now, or only if others came before.
 */
static void end_any(const struct mpi_call* call, struct mpi_receive receive, long status,
                    bool comes) {
    const int* const source =
        (const int*)(status + call->library->source_at); /* and the tag behind it */
    int is_cancelled = 0;
    call->library->test_cancelled(status, (long)&is_cancelled, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    if (is_cancelled || source[0] < 0 || source[0] >= receive.size || source[1] < 0) return;
    receive.turn.from = receive.ranks[source[0]];
    receive.turn.tag = source[1];
    const bool some_came = mpi_next_receive(&receive.turn, comes);
    mpi_tell(&receive.turn, some_came, true);
}

/* Lets the library write statuses that the program does not want, if any source is allowed. */
static void want_statuses(struct mpi_call* call, int place, bool are_needed) {
    long* const statuses = &call->arguments[call->first + place];
    if (are_needed && mpi_is_ignored(call->library, *statuses) && call->count <= call->kept)
        *statuses = call->kept > MPI_FEW_KEPT ? (long)(call->handles + call->kept)
                                              : (long)call->few_statuses;
    call->statuses = mpi_is_ignored(call->library, *statuses) ? 0 : *statuses;
}

static void begin_receive(struct mpi_call* call, const struct mpi_receive* receive, int status) {
    call->receive = *receive;
    call->count = call->kept = 1;
    want_statuses(call, status, receive->is_any);
    if (!receive->is_any) mpi_tell(&receive->turn, true, true);
}

static void end_receive(struct mpi_call* call) {
    if (call->receive.is_any && call->statuses) end_any(call, call->receive, call->statuses, true);
}

static void before_send(struct mpi_call* call) { send(call, STANDARD); }
static void before_send_at_once(struct mpi_call* call) { send(call, AT_ONCE); }
static void before_send_ahead(struct mpi_call* call) { send(call, AHEAD); }

static void before_receive(struct mpi_call* call) {
    const struct mpi_receive receive = posted(call, 0, 1, 2);
    begin_receive(call, &receive, 3);
}

/* The receive is posted before the rank waits for that of its own message. */
static void before_both(struct mpi_call* call) { /* counted from the communicator on */
    start_send(call, -7, 0, STANDARD);
    const struct mpi_receive receive = posted(call, -2, -1, 0);
    begin_receive(call, &receive, 1);
}

static void before_replace(struct mpi_call* call) {
    start_send(call, 0, 4, STANDARD);
    const struct mpi_receive receive = posted(call, 2, 3, 4);
    begin_receive(call, &receive, 5);
}

static void after_both(struct mpi_call* call) {
    end_receive(call);
    mpi_tell_send(&call->sent, false, true);
}

static void before_probe(struct mpi_call* call) {
    const struct mpi_receive receive = posted(call, 0, 1, 2);
    begin_receive(call, &receive, 4);
}

/* The call takes a message only if there is one, which is known when it has returned. */
static void before_try(struct mpi_call* call) {
    call->receive =
        received(call, mpi_its_communicator(call, 2), mpi_number(call, 0), mpi_number(call, 1));
    call->count = call->kept = 1;
    want_statuses(call, 5, true);
}

static void after_try(struct mpi_call* call) {
    if (*(const int*)mpi_argument(call, 3) && call->receive.turn.communicator && call->statuses)
        end_any(call, call->receive, call->statuses, true);
}

/* --- requests --- */

static void start_send_of(struct mpi_call* call, enum mode mode) { start_send(call, 0, 2, mode); }
static void before_starting_send(struct mpi_call* call) { start_send_of(call, STANDARD); }
static void before_starting_at_once(struct mpi_call* call) { start_send_of(call, AT_ONCE); }
static void before_starting_ahead(struct mpi_call* call) { start_send_of(call, AHEAD); }

static void after_starting_send(struct mpi_call* call) {
    const struct mpi_request made = {.handle = mpi_pointed_handle(call, 3),
                                     .kind = MPI_SEND,
                                     .is_active = true,
                                     .waits_for_receive = true,
                                     .sent = call->sent};
    if (made.sent.communicator)
        mpi_add_request(&made);
    else
        mpi_remove_request(made.handle); /* an earlier one with this handle */
}

static void make_send(const struct mpi_call* call, enum mode mode) {
    const struct mpi_request made = {
        .handle = mpi_pointed_handle(call, 3),
        .kind = MPI_SEND,
        .is_persistent = true,
        .waits_for_receive = waits_for_receive(call, 0, mode),
        .sent = sent(mpi_its_communicator(call, 2), mpi_number(call, 0), mpi_number(call, 1))};
    mpi_add_request(&made);
}
static void after_making_send(struct mpi_call* call) { make_send(call, STANDARD); }
static void after_making_at_once(struct mpi_call* call) { make_send(call, AT_ONCE); }
static void after_making_ahead(struct mpi_call* call) { make_send(call, AHEAD); }

/* Numbers a receive that the rank will wait for later, and tells that it is posted. */
static struct mpi_receive start_receive(const struct mpi_call* call, int from, int tag,
                                        int communicator_at) {
    const struct mpi_receive receive = posted(call, from, tag, communicator_at);
    if (!receive.is_any) mpi_tell(&receive.turn, true, false);
    return receive;
}

static void add_receive(const struct mpi_call* call, int request) {
    const struct mpi_request made = {.handle = mpi_pointed_handle(call, request),
                                     .kind = MPI_RECEIVE,
                                     .is_active = true,
                                     .waits_for_receive = true,
                                     .sent = call->sent,
                                     .receive = call->receive};
    mpi_add_request(&made);
}

static void before_starting_receive(struct mpi_call* call) {
    call->sent = no_turn;
    call->receive = start_receive(call, 0, 1, 2);
}
static void after_starting_receive(struct mpi_call* call) { add_receive(call, 3); }

static void before_starting_both(struct mpi_call* call) {
    start_send(call, -7, 0, STANDARD);
    call->receive = start_receive(call, -2, -1, 0);
}
static void after_starting_both(struct mpi_call* call) { add_receive(call, 1); }

static void before_starting_to_replace(struct mpi_call* call) {
    start_send(call, 0, 4, STANDARD);
    call->receive = start_receive(call, 2, 3, 4);
}
static void after_starting_to_replace(struct mpi_call* call) { add_receive(call, 5); }

static void after_making_receive(struct mpi_call* call) {
    const struct mpi_request made = {.handle = mpi_pointed_handle(call, 3),
                                     .kind = MPI_RECEIVE,
                                     .is_persistent = true,
                                     .receive = received(call, mpi_its_communicator(call, 2),
                                                         mpi_number(call, 0), mpi_number(call, 1))};
    mpi_add_request(&made);
}

static void start(struct mpi_request* request) {
    if (request == NULL || !request->is_persistent) return;
    request->is_active = true;
    request->is_told = false;
    if (request->kind == MPI_COLLECTIVE) { /* nothing else has turns at its places */
        ++request->sent.number;
        ++request->receive.turn.number;
        mpi_tell(&request->sent, true, false);
    } else if (request->kind == MPI_SEND) {
        mpi_next_turn(&request->sent, MPI_COMES);
        request->ready = 0;
        if (!request->partitions) mpi_tell(&request->sent, true, false);
    } else {
        post(&request->receive);
        if (!request->receive.is_any) mpi_tell(&request->receive.turn, true, false);
    }
}

static long request_of_array(const struct mpi_call* call, long array, long place) {
    const bool has_pointers = call->library->has_pointers && call->language == MPI_C;
    const long bytes = has_pointers ? (long)sizeof(long) : (long)sizeof(int);
    return mpi_handle_at(call->library, call->language, array + place * bytes);
}

static void before_start(struct mpi_call* call) {
    start(mpi_find_request(mpi_pointed_handle(call, 0)));
}

static void before_start_all(struct mpi_call* call) {
    for (long i = 0; i < mpi_number(call, 0); ++i)
        start(mpi_find_request(request_of_array(call, mpi_argument(call, 1), i)));
}

static void before_free(struct mpi_call* call) { mpi_remove_request(mpi_pointed_handle(call, 0)); }

static void before_cancel(struct mpi_call* call) {
    struct mpi_request* const request = mpi_find_request(mpi_pointed_handle(call, 0));
    if (request == NULL || request->kind != MPI_RECEIVE || request->receive.is_any) return;
    mpi_take_back(&request->receive.turn);
    mpi_receive_earlier(&request->receive.turn);
    request->receive.is_any = true; /* whether a message has come yet is known when it ends */
}

static bool is_under_way(const struct mpi_request* request) {
    return request != NULL && request->is_active && !request->is_told;
}

/* Grows memory for a call of many requests, which stays with the thread. It does not come from the
 * program's allocator, which is observed. */
static long* room_for(long count) {
    static _Thread_local __attribute__((tls_model("initial-exec"))) char* room;
    static _Thread_local __attribute__((tls_model("initial-exec"))) size_t bytes;
    const size_t needed = (size_t)count * (sizeof(long) + MPI_MOST_STATUS_BYTES);
    if (needed > bytes) {
        const size_t pages = (2 * needed + 4095) / 4096 * 4096;
        const long found = syscall(SYS_mmap, NULL, pages, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
        if (found == -1) return NULL;
        if (room != NULL) syscall(SYS_munmap, room, bytes);
        room = (char*)found;
        bytes = pages;
    }
    return (long*)room;
}

/* Keeps what the call will clear. */
static void begin_requests(struct mpi_call* call, long count, long array, int statuses) {
    bool is_any = false;
    long* const room = count > MPI_FEW_KEPT ? room_for(count) : NULL;
    call->count = count;
    call->kept = room || count <= MPI_FEW_KEPT ? count : MPI_FEW_KEPT;
    call->handles = room ? room : call->few_handles;
    for (long i = 0; i < count; ++i) {
        const long handle = request_of_array(call, array, i);
        const struct mpi_request* const request = mpi_find_request(handle);
        if (i < call->kept) call->handles[i] = handle;
        is_any = is_any || (is_under_way(request) && request->receive.is_any);
    }
    want_statuses(call, statuses, is_any);
}

/* Tells what a request waits for, but for a receive from any source. */
static void tell_end(const struct mpi_request* request) {
    if (request->waits_for_receive) mpi_tell_send(&request->sent, false, true);
    if (request->sources)
        mpi_tell_sources(&request->receive.turn, request->sources, request->source_count);
    else if (!request->receive.is_any)
        mpi_tell(&request->receive.turn, false, true);
}

/* Tells at once of what the call will wait for in any case. */
static void wait_for_all(const struct mpi_call* call, long array) {
    for (long i = 0; i < call->count; ++i) {
        const long handle = request_of_array(call, array, i);
        struct mpi_request* const request = mpi_find_request(handle);
        if (!is_under_way(request)) continue;
        if (!request->receive.is_any) {
            tell_end(request);
            request->is_told = true;
        }
        if (i >= call->kept) {
            request->is_active = false;
            if (!request->is_persistent) mpi_remove_request(handle);
        }
    }
}

static void end_request(const struct mpi_call* call, long place, long status_place) {
    if (place < 0 || place >= call->kept) return;
    struct mpi_request* const request = mpi_find_request(call->handles[place]);
    if (request == NULL) return;
    if (is_under_way(request)) {
        tell_end(request);
        if (request->receive.is_any && call->statuses)
            end_any(call, request->receive,
                    call->statuses + status_place * call->library->status_bytes, false);
    }
    request->is_active = false;
    if (!request->is_persistent) mpi_remove_request(call->handles[place]);
}

static void end_all(struct mpi_call* call) {
    for (long i = 0; i < call->count; ++i) end_request(call, i, i);
}

static int at(const struct mpi_call* call, int place) {
    return *(const int*)mpi_argument(call, place);
}

/* Fortran counts from 1 on. No index is a negative number or less than that. */
static long index_in(const struct mpi_call* call, int value) {
    return call->language == MPI_C ? value : value - 1;
}

static void before_wait(struct mpi_call* call) {
    begin_requests(call, 1, mpi_argument(call, 0), 1);
    wait_for_all(call, mpi_argument(call, 0));
}
static void before_wait_all(struct mpi_call* call) {
    begin_requests(call, mpi_number(call, 0), mpi_argument(call, 1), 2);
    wait_for_all(call, mpi_argument(call, 1));
}
static void before_wait_any(struct mpi_call* call) {
    begin_requests(call, mpi_number(call, 0), mpi_argument(call, 1), 3);
}
static void after_wait_any(struct mpi_call* call) {
    end_request(call, index_in(call, at(call, 2)), 0);
}
static void before_wait_some(struct mpi_call* call) {
    begin_requests(call, mpi_number(call, 0), mpi_argument(call, 1), 4);
}
static void after_wait_some(struct mpi_call* call) {
    const int* const indices = (const int*)mpi_argument(call, 3);
    for (int i = 0; i < at(call, 2); ++i) end_request(call, index_in(call, indices[i]), i);
}
static void before_test(struct mpi_call* call) {
    begin_requests(call, 1, mpi_argument(call, 0), 2);
}
static void after_test(struct mpi_call* call) {
    if (at(call, 1)) end_request(call, 0, 0);
}
static void before_test_all(struct mpi_call* call) {
    begin_requests(call, mpi_number(call, 0), mpi_argument(call, 1), 3);
}
static void after_test_all(struct mpi_call* call) {
    if (at(call, 2)) end_all(call);
}
static void before_test_any(struct mpi_call* call) {
    begin_requests(call, mpi_number(call, 0), mpi_argument(call, 1), 4);
}
static void after_test_any(struct mpi_call* call) {
    if (at(call, 3)) end_request(call, index_in(call, at(call, 2)), 0);
}

const struct mpi_role mpi_sends = {before_send, NULL};
const struct mpi_role mpi_sends_at_once = {before_send_at_once, NULL};
const struct mpi_role mpi_sends_ahead = {before_send_ahead, NULL};
const struct mpi_role mpi_starts_send = {before_starting_send, after_starting_send};
const struct mpi_role mpi_starts_send_at_once = {before_starting_at_once, after_starting_send};
const struct mpi_role mpi_starts_send_ahead = {before_starting_ahead, after_starting_send};
const struct mpi_role mpi_makes_send = {NULL, after_making_send};
const struct mpi_role mpi_makes_send_at_once = {NULL, after_making_at_once};
const struct mpi_role mpi_makes_send_ahead = {NULL, after_making_ahead};
const struct mpi_role mpi_receives = {before_receive, end_receive};
const struct mpi_role mpi_starts_receive = {before_starting_receive, after_starting_receive};
const struct mpi_role mpi_makes_receive = {NULL, after_making_receive};
const struct mpi_role mpi_sends_and_receives = {before_both, after_both};
const struct mpi_role mpi_replaces = {before_replace, after_both};
const struct mpi_role mpi_starts_both = {before_starting_both, after_starting_both};
const struct mpi_role mpi_starts_to_replace = {before_starting_to_replace,
                                               after_starting_to_replace};
const struct mpi_role mpi_probes = {before_probe, end_receive};
const struct mpi_role mpi_tries_to_probe = {before_try, after_try};
const struct mpi_role mpi_starts = {before_start, NULL};
const struct mpi_role mpi_starts_all = {before_start_all, NULL};
const struct mpi_role mpi_frees_request = {before_free, NULL};
const struct mpi_role mpi_cancels = {before_cancel, NULL};
const struct mpi_role mpi_waits = {before_wait, end_all};
const struct mpi_role mpi_waits_for_all = {before_wait_all, end_all};
const struct mpi_role mpi_waits_for_any = {before_wait_any, after_wait_any};
const struct mpi_role mpi_waits_for_some = {before_wait_some, after_wait_some};
const struct mpi_role mpi_tests = {before_test, after_test};
const struct mpi_role mpi_tests_all = {before_test_all, after_test_all};
const struct mpi_role mpi_tests_any = {before_test_any, after_test_any};
