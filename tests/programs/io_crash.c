/* Writes a file in steps, and tells the disk itself after each step that fsync has returned.
 *
 * io_crash FILE DEVICE OFFSET WAY: WAY is `synced`, or `careless`, which tells so without an fsync.
 * Step k writes bytes k + 1. It ends with a block on DEVICE at OFFSET that holds k + 1. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { BLOCK = 4096, MIB = 1 << 20, MOST = 3 * MIB + BLOCK };

/* Where and how much; test_lab_crash.py has the same steps. */
static const struct {
    off_t at;
    size_t bytes;
} steps[] = {{0, MIB},           {MIB, MIB + 5000},   {2 * MIB + 5000, 100}, {0, MIB + BLOCK},
             {4 * MIB, 3 * MIB}, {MIB, 2 * MIB},      {7 * MIB, BLOCK},      {7 * MIB + BLOCK, MIB},
             {2 * MIB, 700},     {0, 3 * MIB + BLOCK}};

/* Whether the process has a descriptor with O_DIRECT other than `own`. */
static int writes_directly(int own) {
    int found = 0;
    DIR* folder = opendir("/proc/self/fdinfo");
    for (struct dirent* entry; folder && (entry = readdir(folder));) {
        char path[300];
        unsigned flags = 0;
        snprintf(path, sizeof path, "/proc/self/fdinfo/%s", entry->d_name);
        FILE* file = fopen(path, "r");
        if (file && fscanf(file, "pos: %*d flags: %o", &flags) == 1 && atoi(entry->d_name) != own)
            found |= (flags & O_DIRECT) != 0;
        if (file) fclose(file);
    }
    return found;
}

int main(int count, char** words) {
    char *buffer = NULL, *block = NULL;
    if (count != 5 || posix_memalign((void**)&buffer, BLOCK, MOST) ||
        posix_memalign((void**)&block, BLOCK, BLOCK))
        return 2;
    const int file = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    const int device = open(words[2], O_WRONLY | O_DIRECT);
    const off_t mark = atoll(words[3]);
    if (file < 0 || device < 0) return 3;
    for (unsigned k = 0; k < sizeof steps / sizeof *steps; k++) {
        memset(buffer, (int)k + 1, steps[k].bytes);
        if (lseek(file, steps[k].at, SEEK_SET) < 0) return 4;
        if (write(file, buffer, steps[k].bytes) != (ssize_t)steps[k].bytes) return 5;
        if (strcmp(words[4], "synced") == 0 && fsync(file)) return 6;
        memset(block, (int)k + 1, BLOCK);
        if (pwrite(device, block, BLOCK, mark) != BLOCK) return 7;
    }
    printf("direct %d\n", writes_directly(device));
    return 0;
}
