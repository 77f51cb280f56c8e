/* SPDX-License-Identifier: MIT */
/* sockets.c - makes and removes the sockets of one waiter in the directory beside the file. */
#include "broker/sqlite/wake/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "broker/sqlite/file/place.h"

void qn_sockets_init(struct qn_sockets *sockets)
{
    *sockets = (struct qn_sockets){.dir_fd = -1, .lock_fd = -1};
}

void qn_sockets_close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

void qn_sockets_address(int dir_fd, const char *id, const char *kind,
                        struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(ret_address->sun_path, sizeof ret_address->sun_path, "/proc/self/fd/%d/%s.%s",
                   dir_fd, id, kind);
}

void qn_sockets_remove(int dir_fd, const char *id)
{
    static const char *const kinds[] = {"w", "c", "e", "lock"};
    char name[QN_WAITER_ID_SIZE + 8];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        (void)snprintf(name, sizeof name, "%s.%s", id, kinds[i]);
        (void)unlinkat(dir_fd, name, 0);
    }
}

void qn_sockets_close(struct qn_sockets *sockets)
{
    if (sockets->dir_fd >= 0 && sockets->lock_fd >= 0) {
        qn_sockets_remove(sockets->dir_fd, sockets->id);
    }
    qn_sockets_close_fd(&sockets->lock_fd);
    qn_sockets_close_fd(&sockets->dir_fd);
}

/* Root gives the files it creates to the owner of the database, who must be able to use and remove
 * them. */
static bool give_to_owner(const struct qn_sqlite *self, int dir_fd, const char *name)
{
    uid_t owner = qn_sqlite_place_owner(self);
    return geteuid() != 0 || owner == 0 ||
           fchownat(dir_fd, name, owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool open_directory(const struct qn_sqlite *self, struct qn_sockets *sockets, bool makes)
{
    bool made = makes && mkdir(self->wake_path, 0700) == 0;
    if (makes && !made && errno != EEXIST) {
        return false;
    }
    if (made && (chmod(self->wake_path, 0700) != 0 || /* regardless of the umask */
                 !give_to_owner(self, AT_FDCWD, self->wake_path))) {
        return false;
    }
    struct stat info;
    sockets->dir_fd = open(self->wake_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (sockets->dir_fd < 0 || fstat(sockets->dir_fd, &info) != 0) {
        return false;
    }
    if (!qn_sqlite_place_trusts(self, &info)) {
        errno = EPERM;
        return false;
    }
    return true;
}

/* Locked before there are sockets, so that no sender takes them for those of a dead process. */
static bool make_lock(const struct qn_sqlite *self, struct qn_sockets *sockets)
{
    char name[QN_WAITER_ID_SIZE + 8];
    struct qn_random random;
    qn_random_init(&random);
    (void)snprintf(sockets->id, sizeof sockets->id, "%016" PRIx64 "%016" PRIx64,
                   qn_random_next(&random), qn_random_next(&random));
    (void)snprintf(name, sizeof name, "%s.lock", sockets->id);
    sockets->lock_fd =
        openat(sockets->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return sockets->lock_fd >= 0 && fchmod(sockets->lock_fd, 0600) == 0 &&
           flock(sockets->lock_fd, LOCK_EX | LOCK_NB) == 0 &&
           give_to_owner(self, sockets->dir_fd, name);
}

bool qn_sockets_open(const struct qn_sqlite *self, struct qn_sockets *sockets, bool makes)
{
    return open_directory(self, sockets, makes) && make_lock(self, sockets);
}

/* Only we and the owner of the file may send to it, regardless of the umask. */
static bool make_private(const struct qn_sqlite *self, const struct qn_sockets *sockets,
                         const char *kind)
{
    char name[QN_WAITER_ID_SIZE + 8];
    (void)snprintf(name, sizeof name, "%s.%s", sockets->id, kind);
    return fchmodat(sockets->dir_fd, name, 0600, 0) == 0 &&
           give_to_owner(self, sockets->dir_fd, name);
}

bool qn_sockets_make(const struct qn_sqlite *self, const struct qn_sockets *sockets,
                     const char *kind, int *ret_fd)
{
    struct sockaddr_un address;
    qn_sockets_address(sockets->dir_fd, sockets->id, kind, &address);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    /* The mode of the descriptor is that of the name, so there is no moment with a wider one. */
    if (fchmod(fd, 0600) != 0 ||
        bind(fd, (const struct sockaddr *)(const void *)&address, sizeof address) != 0 ||
        !make_private(self, sockets, kind)) {
        int reason = errno;
        (void)close(fd);
        errno = reason;
        return false;
    }
    *ret_fd = fd;
    return true;
}

bool qn_sockets_removed(const struct qn_sockets *sockets, const char *kind)
{
    char name[QN_WAITER_ID_SIZE + 8];
    struct stat info;
    (void)snprintf(name, sizeof name, "%s.%s", sockets->id, kind);
    return sockets->dir_fd >= 0 &&
           fstatat(sockets->dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

bool qn_sockets_note_lost(int dir_fd, const char *id)
{
    char name[QN_WAITER_ID_SIZE + 8];
    struct stat info;
    (void)snprintf(name, sizeof name, "%s.lock", id);
    int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    /* With one name, so that the owner of the directory cannot make root write elsewhere. */
    bool is_lock = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1;
    bool noted = is_lock && info.st_size == 0 && ftruncate(fd, 1) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return noted;
}

bool qn_sockets_take_lost(const struct qn_sockets *sockets)
{
    struct stat info;
    return sockets->lock_fd >= 0 && fstat(sockets->lock_fd, &info) == 0 && info.st_size > 0 &&
           ftruncate(sockets->lock_fd, 0) == 0;
}

bool qn_sockets_make_pair(int *ret_fd, int *ret_send_fd)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
        return false;
    }
    *ret_fd = fds[0];
    *ret_send_fd = fds[1];
    return true;
}
