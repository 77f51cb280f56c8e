# SPDX-License-Identifier: MIT
"""Waiting for an event in a test: a file that changes in a folder, a process that ends.

What shows in neither, as the data of a server, is looked at again after LOOK_S at the latest."""

import ctypes
import os
import select

LIBC = ctypes.CDLL(None, use_errno=True)
LOOK_S = 0.02
IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x2, 0x80, 0x100, 0x200


class Changes:
    """Of the files in a folder, and of processes; from its making on."""

    def __init__(self, folder):
        self.fd = LIBC.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        mask = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_DELETE
        if self.fd < 0 or LIBC.inotify_add_watch(self.fd, os.fsencode(folder), mask) < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch {folder}")

    def close(self):
        os.close(self.fd)

    def forget(self):
        """What was until now is no news."""
        try:
            os.read(self.fd, 65536)
        except BlockingIOError:
            pass

    def wait(self, processes=(), limit_s=LOOK_S):
        """Until a file changes or one of the processes, which all run, ends; at most limit_s."""
        poll, ends = select.poll(), []
        poll.register(self.fd, select.POLLIN)
        try:
            for process in processes:
                ends.append(os.pidfd_open(process.pid))
                poll.register(ends[-1], select.POLLIN)
            poll.poll(limit_s * 1000)
        finally:
            for fd in ends:
                os.close(fd)
