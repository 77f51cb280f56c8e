/* SPDX-License-Identifier: MIT */
/* replay.c - replaces libFuzzer's main: passes the files of a corpus, one after the other, to a
 * target. For builds without libFuzzer: gcc, valgrind, `make check`.
 *
 * usage: fuzz_NAME FILE|DIRECTORY... - none at all is a failure, since nothing was tested. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* One input may take this long, even under valgrind; then SIGALRM ends the process, and the last
 * line names the input. */
#define PATIENCE_S 60

static size_t replayed;

static void complain(const char *path)
{
    perror(path);
    exit(2);
}

static int replay(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)walk;
    if (kind != FTW_F) {
        return 0;
    }
    size_t size = (size_t)info->st_size;
    unsigned char *data = malloc(size + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (data == NULL || fd < 0 || read(fd, data, size) != (ssize_t)size) {
        complain(path);
    }
    (void)close(fd);
    (void)printf("%s\n", path);
    (void)fflush(stdout);
    (void)alarm(PATIENCE_S);
    (void)LLVMFuzzerTestOneInput(data, size);
    (void)alarm(0);
    free(data);
    replayed++;
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (nftw(argv[i], replay, 16, FTW_PHYS) != 0) {
            complain(argv[i]);
        }
    }
    (void)printf("%zu inputs\n", replayed);
    return replayed == 0 ? 1 : 0;
}
