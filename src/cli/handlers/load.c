/* SPDX-License-Identifier: MIT */
/* load.c - loads a shared object of handlers.
 *
 * The program exports all functions of the library (CMakeLists.txt), and the loader looks there
 * first: so the object uses this program's library, also where it was linked with libquern.so.
 * Symbols are resolved now, so that a missing function is an error at the start and not in the
 * middle of a task. */
#include "cli/handlers/load.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "quern/handlers.h"
#include "worker/run/mux.h"

enum { PART = 1000 }; /* of QUERN_VERSION_NUMBER */

typedef quern_status register_handlers(quern_mux *mux, quern_error *err);

/* As far as the machine, and what the program itself has there. */
enum { HEAD_SIZE = offsetof(Elf64_Ehdr, e_version) };

/* Without /proc there is nothing to compare with, and the loader decides. */
static bool is_for_this_machine(const unsigned char *head)
{
    unsigned char own[HEAD_SIZE];
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool is_known = fd >= 0 && read(fd, own, sizeof own) == sizeof own;
    if (fd >= 0) {
        (void)close(fd);
    }
    size_t machine = offsetof(Elf64_Ehdr, e_machine);
    return !is_known || (head[EI_CLASS] == own[EI_CLASS] && head[EI_DATA] == own[EI_DATA] &&
                         memcmp(head + machine, own + machine, sizeof(Elf64_Half)) == 0);
}

/* The loader's own words for these are harder to understand, or wrong. */
static quern_status check_file(const char *path, quern_error *err)
{
    unsigned char head[HEAD_SIZE];
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0) {
        int reason = errno;
        if (fd >= 0) {
            (void)close(fd);
        }
        return qn_error_set(err, reason == ENOENT ? QUERN_E_NOT_FOUND : QUERN_E_INVALID, "%s: %s",
                            path, strerror(reason));
    }
    bool is_object = S_ISREG(status.st_mode) && read(fd, head, sizeof head) == sizeof head &&
                     memcmp(head, ELFMAG, SELFMAG) == 0;
    (void)close(fd);
    if (!is_object || !is_for_this_machine(head)) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: %s", path,
                            S_ISDIR(status.st_mode) ? "it is a directory"
                            : is_object             ? "compiled for another machine"
                                                    : "not a shared object");
    }
    return QUERN_OK;
}

/* Before 1.0 each minor version is an interface of its own, see CMakeLists.txt. */
static bool is_compatible(int version)
{
    int major = version / (PART * PART);
    int minor = version / PART % PART;
    if (major != QUERN_VERSION_MAJOR) {
        return false;
    }
    return major == 0 ? minor == QUERN_VERSION_MINOR : minor <= QUERN_VERSION_MINOR;
}

static quern_status check_version(const char *path, void *object, quern_error *err)
{
    const int *version = dlsym(object, "quern_handlers_version");
    if (version == NULL) {
        return qn_error_set(err, QUERN_E_INVALID,
                            "%s: no quern_handlers_version: begin quern_handlers with"
                            " QUERN_HANDLERS of quern/handlers.h",
                            path);
    }
    if (!is_compatible(*version)) {
        return qn_error_set(
            err, QUERN_E_UNSUPPORTED,
            "%s: compiled for quern %d.%d.%d, and this is " QUERN_VERSION ": compile it again",
            path, *version / (PART * PART), *version / PART % PART, *version % PART);
    }
    return QUERN_OK;
}

/* The text of the loader, without the path in front, which it has or has not. */
static const char *loader_text(const char *path)
{
    const char *text = dlerror();
    size_t size = strlen(path);
    if (text == NULL) {
        return "cannot be loaded";
    }
    bool names_it = strncmp(text, path, size) == 0 && strncmp(text + size, ": ", 2) == 0;
    return names_it ? text + size + 2 : text;
}

quern_status qn_handlers_load(const char *path, quern_mux *mux, quern_error *err)
{
    char place[PATH_MAX];
    /* A name without a slash would be looked for among the libraries of the system. */
    int size = snprintf(place, sizeof place, "%s%s", strchr(path, '/') != NULL ? "" : "./", path);
    if (size < 0 || (size_t)size >= sizeof place) {
        return qn_error_set(err, QUERN_E_INVALID, "%.64s...: %s", path, strerror(ENAMETOOLONG));
    }
    quern_status status = check_file(place, err);
    if (status != QUERN_OK) {
        return status;
    }
    void *object = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: %s", place, loader_text(place));
    }
    register_handlers *start = NULL;
    void *symbol = dlsym(object, "quern_handlers");
    if (symbol == NULL) {
        return qn_error_set(err, QUERN_E_INVALID, "%s: no function quern_handlers", place);
    }
    memcpy(&start, &symbol, sizeof start); /* C has no cast for it, POSIX promises it */
    status = check_version(place, object, err);
    if (status != QUERN_OK) {
        return status;
    }
    quern_error reason = {.text = ""};
    status = start(mux, &reason);
    if (status != QUERN_OK) {
        return qn_error_set(err, status, "%s: quern_handlers: %s%s%s", place,
                            quern_status_name(status), reason.text[0] != '\0' ? ": " : "",
                            reason.text);
    }
    return qn_mux_count(mux) > 0 || qn_mux_only_aggregates(mux)
               ? QUERN_OK
               : qn_error_set(err, QUERN_E_INVALID, "%s: quern_handlers registers no handler",
                              place);
}
