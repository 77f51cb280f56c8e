/* SPDX-License-Identifier: MIT */
/* checksum.c - a worker: the payload names a file, the result is its SHA-256.
 *
 * A file that cannot be read is tried again after 300 ms, and archived when its attempts are
 * used up. With TOTAL given, standard error shows how far the worker is: a bar on a terminal, a
 * line now and then elsewhere. It ends when the queue is empty. `make demo` runs it.
 * Usage: checksum BROKER [TOTAL]. */
#include <errno.h>
#include <openssl/evp.h>
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool digest_file(FILE *file, char hex[2 * EVP_MAX_MD_SIZE + 1])
{
    unsigned char digest[EVP_MAX_MD_SIZE], data[16384];
    unsigned digest_size = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool ok = context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (size_t size; ok && (size = fread(data, 1, sizeof data, file)) > 0;) {
        ok = EVP_DigestUpdate(context, data, size) == 1;
    }
    ok = ok && !ferror(file) && EVP_DigestFinal_ex(context, digest, &digest_size) == 1;
    EVP_MD_CTX_free(context);
    for (unsigned i = 0; i < digest_size; i++) {
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    }
    return ok;
}

static quern_outcome checksum(quern_run *run, const quern_task *task, void *user)
{
    (void)user;
    char path[4096] = "", hex[2 * EVP_MAX_MD_SIZE + 1];
    if (task->payload_size == 0 || task->payload_size >= sizeof path) {
        return quern_run_fail(run, QUERN_ARCHIVE, "the payload is not a path");
    }
    memcpy(path, task->payload, task->payload_size);
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return quern_run_fail(run, QUERN_RETRY, "%s: %s", path, strerror(errno));
    }
    bool ok = digest_file(file, hex);
    fclose(file);
    quern_error err = {QUERN_OK, "cannot be read"};
    if (!ok || quern_run_write_result(run, hex, strlen(hex), &err) != QUERN_OK) {
        return quern_run_fail(run, QUERN_RETRY, "%s: %s", path, err.text);
    }
    return QUERN_DONE;
}

struct progress {
    long total, done, step;
    struct timespec start;
};

/* The worker calls this for each run, one at a time. */
static void on_run(const quern_run_report *report, void *user)
{
    struct progress *p = user;
    p->done += report->outcome == QUERN_DONE;
    if (report->outcome != QUERN_DONE || (p->done % p->step != 0 && p->done != p->total)) {
        return;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double s =
        difftime(now.tv_sec, p->start.tv_sec) + 1e-9 * (double)(now.tv_nsec - p->start.tv_nsec);
    double rate = (double)p->done / (s > 0.001 ? s : 0.001);
    int width = p->done < p->total ? (int)(30 * p->done / p->total) : 30;
    bool terminal = isatty(STDERR_FILENO);
    fprintf(stderr, "%s[%.*s%*s] %ld of %ld files, %.0f/s, %.1f s left%s", terminal ? "\r" : "",
            width, "##############################", 30 - width, "", p->done, p->total, rate,
            (double)(p->total - p->done) / rate, terminal ? "   " : "\n");
}

int main(int argc, char **argv)
{
    struct progress progress = {.total = argc > 2 ? strtol(argv[2], NULL, 10) : 0};
    progress.step = isatty(STDERR_FILENO) ? 50 : progress.total / 4 + 1;
    clock_gettime(CLOCK_MONOTONIC, &progress.start);
    const quern_worker_options options = {
        .drain = true, .on_run = progress.total > 0 ? on_run : NULL, .user = &progress};
    const quern_handler_options patience = {.retry = QUERN_BACKOFF_FIXED(300)};
    quern_mux *mux = NULL;
    quern_worker *worker = NULL;
    quern_error err = {QUERN_E_INVALID, "usage: checksum BROKER [TOTAL]"};
    bool ok = argc > 1 && quern_mux_new(&mux, &err) == QUERN_OK &&
              quern_mux_handle(mux, "checksum", checksum, NULL, &patience, &err) == QUERN_OK &&
              quern_worker_new(argv[1], mux, &options, &worker, &err) == QUERN_OK &&
              quern_worker_run(worker, &err) == QUERN_OK;
    fprintf(stderr, "%s%s", isatty(STDERR_FILENO) || !ok ? "\n" : "", ok ? "" : err.text);
    quern_worker_free(worker);
    quern_mux_free(mux);
    return ok ? 0 : 1;
}
