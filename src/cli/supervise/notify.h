/* SPDX-License-Identifier: MIT */
/* notify.h - reports to the service manager (sd_notify of systemd): one datagram each. */
#ifndef QN_CLI_SUPERVISE_NOTIFY_H
#define QN_CLI_SUPERVISE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Reads and removes the variables of the environment (NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID),
 * so that no child reports in the name of this process. Once, before there are threads. */
void qn_notify_take(void);
/* Puts them back, for the program that this process executes next; takes them again. */
void qn_notify_give_back(void);
/* Whether there is a service manager that wants reports. */
bool qn_notify_is_wanted(void);
/* How often it wants a sign of life, in ms: half of its limit; 0: not. */
int64_t qn_notify_watchdog_ms(void);

/* These do nothing where no report is wanted. False: the manager has no room for it at present, and
 * it has to be sent again. Any thread. */
bool qn_notify_ready(void);
bool qn_notify_reloading(void);
bool qn_notify_stopping(void);
bool qn_notify_alive(void);
/* One line. */
bool qn_notify_status(const char *text);

#endif
