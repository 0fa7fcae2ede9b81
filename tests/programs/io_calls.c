/* Operations on files whose results are known; argv[1] is a folder. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[8192];

static void calls(void) {
    struct iovec parts[2] = {{buffer, 100}, {buffer, 50}};
    int file = open("calls", O_RDWR | O_CREAT | O_TRUNC, 0600);
    write(file, buffer, 1000);
    pwrite(file, buffer, 10, 5000);
    writev(file, parts, 2);
    lseek(file, 500, SEEK_SET);
    read(file, buffer, 200);
    int second = dup(file);
    read(second, buffer, 300);
    read(file, buffer, 8192);
    read(file, buffer, 8192);
    fsync(file);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ftruncate(file, 100);
    munmap(mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0), 4096);
    close(second);
    close(file);
    file = open("calls", O_WRONLY | O_APPEND);
    write(file, buffer, 7);
    write(file, buffer, 9);
    close(file);
    close(99);
}

static void removed(void) {
    int file = open("removed", O_RDWR | O_CREAT, 0600);
    write(file, buffer, 100);
    int second = dup(file);
    close(file);
    unlink("removed");
    close(second);
}

static void streams(void) {
    FILE* stream = fopen("appended", "a");
    fclose(stream);
    fclose(fopen("appended", "a"));
    fopen("missing/appended", "a");
    stream = fopen("stream", "w");
    for (int i = 0; i < 1000; i++) fprintf(stream, "%4d ", i);
    fclose(stream);
    stream = fopen("stream", "r");
    fread(buffer, 1, sizeof buffer, stream);
    fclose(stream);
}

static void* thread(void* name) {
    int file = open(name, O_WRONLY | O_CREAT, 0600);
    for (int i = 0; i < 300; i++) pwrite(file, buffer, 16, 16 * i);
    close(file);
    return NULL;
}

static void threads(void) {
    pthread_t each[4];
    static char names[4][8] = {"t0", "t1", "t2", "t3"};
    for (int i = 0; i < 4; i++) pthread_create(&each[i], NULL, thread, names[i]);
    for (int i = 0; i < 4; i++) pthread_join(each[i], NULL);
}

static void children(char** argv) {
    int file = open("shared", O_RDWR | O_CREAT, 0600);
    write(file, buffer, 30);
    if (fork() == 0) {
        write(file, buffer, 12);
        char* words[] = {argv[0], argv[1], "streams", NULL};
        execv(argv[0], words);
    }
    wait(NULL);
    write(file, buffer, 5);
    if (vfork() == 0) {
        close(file); /* of the child's table alone */
        execl("/bin/true", "true", (char*)NULL);
    }
    wait(NULL);
    write(file, buffer, 6);
    close(file);
}

int main(int argc, char** argv) {
    const char* what = argc > 2 ? argv[2] : "";
    if (chdir(argv[1]) != 0) return 2;
    if (!strcmp(what, "calls")) calls();
    if (!strcmp(what, "removed")) removed();
    if (!strcmp(what, "streams")) streams();
    if (!strcmp(what, "threads")) threads();
    if (!strcmp(what, "children")) children(argv);
    if (!strcmp(what, "killed")) {
        thread("killed");
        raise(SIGKILL);
    }
    return 0;
}
