/* Maps a file of 1 MiB, shared or privately, and writes or reads all of it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int words, char** word) {
    enum { bytes = 1 << 20 };
    if (words != 4) return 2;
    const int how = strcmp(word[2], "shared") == 0 ? MAP_SHARED : MAP_PRIVATE;
    const int file = open(word[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, bytes) != 0) return 1;
    volatile char* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, file, 0);
    if (memory == MAP_FAILED) return 1;
    long sum = 0;
    for (int i = 0; i < bytes; i += 64)
        if (strcmp(word[3], "write") == 0)
            memory[i] = 1;
        else
            sum += memory[i];
    printf("%ld\n", sum);
    return 0;
}
