/* Counts on the numbers of its descriptors, closes all as a daemon does, and opens others instead.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { files = 64, size = 16 << 20 };

int main(void) {
    printf("first %d\n", open("/dev/null", O_RDONLY));
    closefrom(3);
    int opened[files];
    for (int i = 0; i < files; ++i) {
        char name[] = "kept-XXXXXX";
        opened[i] = mkstemp(name);
        unlink(name);
    }
    const long limit = sysconf(_SC_OPEN_MAX);
    const int last = dup2(opened[0], (int)limit - 1);
    char* block = malloc(size);
    for (int i = 0; i < 8; ++i) memset(block, i, size);
    for (int i = 0; i < files; ++i) {
        struct stat status;
        if (fstat(opened[i], &status) != 0 || status.st_size != 0) printf("%d is damaged\n", i);
    }
    printf("%d %d\n", opened[files - 1], last >= 0 && block[size - 1] == 7);
    return 0;
}
