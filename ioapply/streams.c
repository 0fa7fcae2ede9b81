/*
 * stdio keeps back what a program prints until its buffer is full, and then writes the buffer. A
 * larger one makes fewer and larger writes. The program can tell no more than if it had called
 * setvbuf itself: what stdio still keeps back is lost at a crash with any buffer, fflush writes it,
 * and so do fclose, fseek and exit.
 *
 * Streams that only write a regular file from its position get one. With O_APPEND, other processes
 * may write between two writes, so those streams stay as they are, as do those that also read.
 */
#define _GNU_SOURCE
#include "ioapply/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

enum { MOST_STREAMS = 64 }; /* that are open at a time; others keep their buffers */

static size_t buffer_bytes; /* 0: all streams keep theirs */

static struct {
    const FILE* stream; /* atomic; NULL: the place is free */
    char* memory;       /* of the one who has the place; stays for the next one */
} places[MOST_STREAMS];

static int place_of(const FILE* stream) {
    for (int i = 0; buffer_bytes > 0 && i < MOST_STREAMS; i++)
        if (__atomic_load_n(&places[i].stream, __ATOMIC_ACQUIRE) == stream) return i;
    return -1;
}

/* While fclose runs, another thread may open a stream that gets the memory of this FILE. It must
 * not find this place, whose buffer would be a third one's soon. So the place has no stream then.
 */
int stream_place_closing(const FILE* stream) {
    static char nobody;
    const int place = place_of(stream);
    if (place >= 0)
        __atomic_store_n(&places[place].stream, (const FILE*)(void*)&nobody, __ATOMIC_RELEASE);
    return place;
}

void stream_place_free(int place) {
    if (place >= 0) __atomic_store_n(&places[place].stream, NULL, __ATOMIC_RELEASE);
}

/* A stream that was reopened still has its place, and so may one whose FILE was another's. */
static int take_place(const FILE* stream) {
    const int before = place_of(stream);
    if (before >= 0) return before;
    for (int i = 0; i < MOST_STREAMS; i++) {
        const FILE* expected = NULL;
        if (__atomic_compare_exchange_n(&places[i].stream, &expected, stream, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return i;
    }
    return -1;
}

/* Whether writes to the descriptor follow each other in a file, and nobody asked for each of them.
 */
static bool only_writes(int file) {
    struct stat info;
    const int flags = (int)syscall(SYS_fcntl, file, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_WRONLY &&
           !(flags & (O_APPEND | O_DIRECT | O_DSYNC | O_SYNC | O_PATH)) &&
           syscall(SYS_fstat, file, &info) == 0 && S_ISREG(info.st_mode);
}

void stream_opened(FILE* stream) {
    if (buffer_bytes == 0 || stream == NULL || fwide(stream, 0) > 0) return;
    const int saved_errno = errno;
    const int place = only_writes(fileno(stream)) ? take_place(stream) : -1;
    if (place >= 0 && places[place].memory == NULL) {
        void* memory = (void*)syscall(SYS_mmap, NULL, buffer_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        places[place].memory = memory == MAP_FAILED ? NULL : memory;
    }
    if (place >= 0 && (places[place].memory == NULL ||
                       setvbuf(stream, places[place].memory, _IOFBF, buffer_bytes) != 0))
        stream_place_free(place);
    errno = saved_errno;
}

/* Whether both descriptors have the same file. Programs that print to both count on their order. */
static bool same_file(int first, int second) {
    struct stat of_first, of_second;
    return syscall(SYS_fstat, first, &of_first) == 0 &&
           syscall(SYS_fstat, second, &of_second) == 0 && of_first.st_dev == of_second.st_dev &&
           of_first.st_ino == of_second.st_ino;
}

void streams_begin(void) {
    const char* wanted = getenv("PAGELENS_IO_BUFFER");
    const long bytes = wanted ? atol(wanted) : 0;
    buffer_bytes = bytes > 0 ? (size_t)bytes : 0;
    if (buffer_bytes > 0 && !same_file(STDOUT_FILENO, STDERR_FILENO)) stream_opened(stdout);
}
