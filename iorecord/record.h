/*
 * The raw log of the I/O recorder, which pagelens/io/raw_log.py reads. A process writes one file of
 * chunks. A chunk is a struct chunk_header and the records behind it. A record is there as soon as
 * its `kind` is not 0; the first one that is 0 ends the chunk. All numbers are little-endian.
 */
#ifndef PAGELENS_IORECORD_RECORD_H
#define PAGELENS_IORECORD_RECORD_H

#include <stdint.h>

#define IO_LOG_MAGIC "PLIOLOG"
enum { IO_LOG_VERSION = 1 };

/* The numbers are part of the format: add new kinds at the end. */
enum record_kind {
    KIND_NONE,
    KIND_BEGIN, /* of the process: `text` has its program */
    KIND_END,
    KIND_FILE, /* a descriptor that is seen for the first time: `text` has its path */
    KIND_TEXT, /* 72 bytes of the text of the record before it */
    KIND_OPEN,
    KIND_CLOSE,
    KIND_READ,
    KIND_WRITE,
    KIND_SEEK,
    KIND_SYNC,
    KIND_DATASYNC,
    KIND_ADVISE,
    KIND_MMAP,
    KIND_MSYNC,
    KIND_DUP,
    KIND_SETFL,
    KIND_TRUNCATE,
    KIND_ALLOCATE,
    KIND_COPY,       /* copy_file_range, sendfile: `address` is the descriptor that is read */
    KIND_SYNC_RANGE, /* sync_file_range */
    KIND_READAHEAD,
    KIND_QUEUED_READ, /* handed over to libaio or io_uring; `result` is what was asked for */
    KIND_QUEUED_WRITE,
    KIND_QUEUED_SYNC,
    KIND_SUBMIT, /* the call that hands over `size` of these */
    KIND_AWAIT,  /* the call that waits for `size` of them */
    KIND_DONE,   /* `result` of a queued operation, as soon as it was seen */
};

struct record {
    uint8_t kind;
    uint8_t caller; /* iorecord/callers.h */
    uint16_t cpu;
    uint32_t thread;
    union {
        struct {
            uint64_t start_ns; /* CLOCK_MONOTONIC */
            uint64_t wall_ns;
            uint64_t cpu_ns; /* of the thread */
            int64_t offset;  /* -1: at the position of the file */
            uint64_t size;   /* that was asked for */
            int64_t result;  /* of the call; -errno where it failed */
            uint64_t address;
            int32_t descriptor;
            uint32_t flags;
            uint32_t buffers; /* of readv and its kin; 1 for others */
            uint32_t texts;   /* records of KIND_TEXT that follow */
        };
        char text[72];
    };
};

/* In `flags` of KIND_READ and KIND_WRITE: a stream's, inside of libc. */
#define FLAG_IN_STDIO 0x80000000u

/* In a record of KIND_FILE: */
#define FILE_CACHED_PAGES                                                                 \
    wall_ns                /* in the page cache before the first operation; -1: not known \
                            */
#define FILE_SYSTEM cpu_ns /* f_type of statfs */
#define FILE_POSITION offset
#define FILE_BYTES size
#define FILE_INODE result
#define FILE_DEVICE address
#define FILE_MODE buffers

/* In a record of KIND_BEGIN and KIND_END: */
#define PROCESS_REAL_NS wall_ns /* CLOCK_REALTIME */
#define PROCESS_CPU_NS cpu_ns   /* user and system time of the process so far */
#define PROCESS_PARENT offset
#define PROCESS_RANK result /* MPI rank, or -1 */
#define PROCESS_MINOR_FAULTS size
#define PROCESS_MAJOR_FAULTS address

/* In a record of KIND_QUEUED_* and KIND_DONE, which belong together if both are equal: */
#define QUEUED_IN wall_ns /* the ring, or the context of libaio */
#define QUEUED_KEY cpu_ns /* user_data, or the address of the control block */

struct chunk_header {
    char magic[8];
    uint32_t version;
    uint32_t process;
    uint64_t bytes;   /* of the chunk, with this header */
    uint64_t dropped; /* in the first chunk: records that found no room */
    uint64_t spare[6];
};

_Static_assert(sizeof(struct record) == 80, "part of the format");
_Static_assert(sizeof(struct chunk_header) == sizeof(struct record), "part of the format");

#endif
