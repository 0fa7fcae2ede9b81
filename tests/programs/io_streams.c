/* Writes files by stdio in ways that a larger buffer can get wrong, and prints what it sees.
 * Usage: io_streams FOLDER WAY */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

enum { LINES = 40000, MANY = 100 };

static char path[4096], other_path[4200];
static FILE* report;

static void told(const char* what, long result) { fprintf(report, "%s %ld\n", what, result); }

static long length_of(const char* name) {
    struct stat info;
    return stat(name, &info) == 0 ? (long)info.st_size : -1;
}

static FILE* lines_to(FILE* stream, char letter) {
    for (int i = 0; i < LINES; i++) fprintf(stream, "%c line %d\n", letter, i);
    return stream;
}

static void plain(void) {
    FILE* stream = lines_to(fopen(path, "w"), 'a');
    told("at", ftell(stream));
    fseek(stream, 1000, SEEK_SET);
    fputs("PATCH", stream);
    fseek(stream, 0, SEEK_END);
    told("end", ftell(stream));
    lines_to(stream, 'b');
    told("flush", fflush(stream));
    told("length", length_of(path));
    told("descriptor", lseek(fileno(stream), 0, SEEK_CUR));
    told("write", write(fileno(stream), "direct\n", 7));
    lines_to(stream, 'c');
    told("close", fclose(stream));
    told("length", length_of(path));
}

static void exits(void) { lines_to(fopen(path, "w"), 'e'); }

static void appends(void) {
    FILE* first = fopen(path, "a");
    FILE* second = fopen(path, "a");
    for (int i = 0; i < 3; i++) {
        lines_to(first, 'a');
        lines_to(second, 'b');
        told("length", length_of(path)); /* as often as without: these streams stay */
    }
}

static void updates(void) {
    char line[64];
    FILE* stream = lines_to(fopen(path, "w+"), 'u');
    told("length", length_of(path));
    rewind(stream);
    told("read", fgets(line, sizeof line, stream) != NULL && strcmp(line, "u line 0\n") == 0);
    fclose(stream);
}

/* What was flushed is there, whatever happens to the program. */
static void killed(void) {
    FILE* stream = lines_to(fopen(path, "w"), 'k');
    fflush(stream);
    fsync(fileno(stream));
    kill(getpid(), SIGKILL);
}

static void forks(void) {
    FILE* stream = lines_to(fopen(path, "w"), 'p');
    fflush(stream);
    if (fork() == 0) {
        lines_to(stream, 'c');
        fclose(stream);
        _exit(0);
    }
    wait(NULL);
    lines_to(stream, 'q');
    fclose(stream);
    told("length", length_of(path));
}

/* The program's own choices stay, and other programs see what they say. */
static void own_buffers(void) {
    static char small[100];
    FILE* stream = fopen(path, "w");
    setvbuf(stream, NULL, _IOLBF, 0);
    fputs("a line\nand", stream);
    told("by lines", length_of(path));
    fclose(stream);
    stream = fopen(path, "a");
    setvbuf(stream, small, _IOFBF, sizeof small);
    for (int i = 0; i < 30; i++) fputs("0123456789", stream);
    told("own", length_of(path));
    fclose(stream);
    stream = fopen(path, "w");
    setbuf(stream, NULL);
    fputs("now", stream);
    told("none", length_of(path));
    fclose(stream);
}

static void reopens(void) {
    FILE* stream = lines_to(fopen(path, "w"), 'r');
    stream = lines_to(freopen(other_path, "w", stream), 's');
    told("first", length_of(path));
    stream = freopen(path, "r", stream);
    told("read", fgetc(stream));
    fclose(stream);
    stream = lines_to(fopen(path, "w"), 't');
    FILE* doubled = fdopen(dup(fileno(stream)), "w");
    fflush(stream);
    lines_to(doubled, 'd');
    fclose(doubled);
    fclose(stream);
    told("second", length_of(other_path));
}

static void many(void) {
    FILE* all[MANY];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            snprintf(other_path, sizeof other_path, "%s-%d", path, i);
            all[i] = lines_to(fopen(other_path, "w"), (char)('A' + i % 26));
        }
        long bad = 0;
        for (int i = 0; i < MANY; i++) bad += fclose(all[i]) != 0;
        told("bad", bad);
    }
}

/* While a stream is closed, another thread may open one that gets its memory. Here free does so. */
static const void* in_closing;
static FILE* opened_meanwhile;

void __libc_free(void*);
void free(void* memory) {
    __libc_free(memory);
    if (memory == NULL || memory != in_closing) return;
    in_closing = NULL;
    opened_meanwhile = fopen(other_path, "w");
}

static void meanwhile(void) {
    FILE* first = fopen(path, "w");
    in_closing = first;
    fclose(first);
    told("same memory", opened_meanwhile == first);
    fputs("second", opened_meanwhile);
    FILE* third = fopen(path, "w");
    fputs("third", third);
    told("close", fclose(third));
    told("close", fclose(opened_meanwhile));
}

static void* lines_of(void* stream) {
    lines_to(stream, 'z');
    return NULL;
}

static void threads(void) {
    FILE* stream = fopen(path, "w");
    pthread_t all[4];
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, lines_of, stream);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    fclose(stream);
    told("length", length_of(path)); /* the order of lines may differ */
    unlink(path);
}

static void wide(void) {
    FILE* stream = fopen(path, "w");
    for (int i = 0; i < LINES; i++) fwprintf(stream, L"wide %d\n", i);
    told("close", fclose(stream));
}

static void mapped(void) {
    FILE* stream = lines_to(fopen(path, "w"), 'm');
    fflush(stream);
    const int file = open(path, O_RDWR);
    char* memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memory[0] = 'M';
    lines_to(stream, 'n');
    fclose(stream);
    told("same", memcmp(memory, "M line 0\n", 9));
}

/* A full disk is an error of the stream at the latest when it is closed, and what it holds is as
 * much as fits. */
static void limited(void) {
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit most = {100000, 100000};
    setrlimit(RLIMIT_FSIZE, &most);
    FILE* stream = lines_to(fopen(path, "w"), 'l');
    const int flushed = fflush(stream), error = ferror(stream);
    told("error", flushed != 0 || error);
    told("close", fclose(stream) != 0 || error);
    told("length", length_of(path));
}

static void to_stdout(void) {
    lines_to(stdout, 'o');
    told("printed", LINES);
    told("flush", fflush(stdout));
    told("length", lseek(1, 0, SEEK_CUR));
    system("echo from a child");
    lines_to(stdout, 'p');
}

static void calls(void) {
    char line[64];
    lines_to(fopen(path, "w"), 'x');
    FILE* io = fopen("/proc/self/io", "r");
    while (fgets(line, sizeof line, io))
        if (strncmp(line, "syscw:", 6) == 0) fputs(line, report);
}

int main(int count, char** words) {
    static const struct {
        const char* name;
        void (*run)(void);
    } ways[] = {{"plain", plain},
                {"exits", exits},
                {"appends", appends},
                {"updates", updates},
                {"killed", killed},
                {"forks", forks},
                {"own_buffers", own_buffers},
                {"reopens", reopens},
                {"many", many},
                {"meanwhile", meanwhile},
                {"threads", threads},
                {"wide", wide},
                {"mapped", mapped},
                {"limited", limited},
                {"to_stdout", to_stdout},
                {"calls", calls}};
    if (count < 3) return 2;
    report = fdopen(dup(2), "a");
    setvbuf(report, NULL, _IONBF, 0);
    snprintf(path, sizeof path, "%s/file", words[1]);
    snprintf(other_path, sizeof other_path, "%s/other", words[1]);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, words[2]) == 0) ways[i].run();
    return 0;
}
