/* SPDX-License-Identifier: MIT */
/* cli.h - shared by all files of the program: verbs, exit codes, messages.
 *
 * Data goes to stdout, messages to stderr. Every verb prints one JSON document instead of text with
 * --json. To add a verb: see CONTRIBUTING.md. */
#ifndef QN_CLI_CLI_H
#define QN_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/args.h"
#include "quern/client.h"
#include "quern/inspector.h"
#include "quern/status.h"
#include "quern/worker.h"

enum qn_exit {
    QN_EXIT_OK = 0,
    QN_EXIT_FAILURE = 1,
    QN_EXIT_USAGE = 2,
    QN_EXIT_TASKS_FAILED = 3, /* of work --drain and --until-idle: the worker itself did not; and of
                               * the task that was waited for */
    QN_EXIT_DATA = 65,
    QN_EXIT_BROKER = 69,
    QN_EXIT_TEMPORARY = 75,
    QN_EXIT_DENIED = 77,
    QN_EXIT_CONFIG = 78
};

struct qn_cli {
    struct qn_args args;
    const struct qn_noun *const *nouns; /* the table of main.c */
    size_t noun_count;
    const struct qn_noun *noun;
    const struct qn_verb *verb;
    char where[32];             /* "queue list": the start of every error line */
    const char *given_word;     /* the argument of --broker, its password starred out; NULL: none */
    char *given_text;           /* the same as it was; a secret.h text */
    char *given_url;            /* a secret.h text; what --broker named, with its password */
    char *broker_url;           /* a secret.h text; see qn_cli_broker_url */
    struct qn_config *config;   /* see config/config.h; NULL: not read */
    const char *config_path;    /* of the file of it; NULL: none */
    const char *configured_url; /* that it names, also by a context; NULL: none */
    bool json;
    /* NULL: messages go to stderr as "quern: <where>: text"; else to this function, which logs
     * them. */
    void (*on_message)(quern_log_level level, const char *text, void *user);
    void *message_user;
};

struct qn_verb {
    const char *name;     /* "" when the noun alone is the verb, as in `quern stats` */
    const char *operands; /* "TYPE [PAYLOAD|-]"; "" when it takes none */
    const char *summary;  /* one line, lower case, no period */
    const char *about;    /* whole lines for the help, each at most 79 columns; NULL: none */
    const char *example;  /* one or two lines, each indented by two spaces */
    const struct qn_option *options;
    size_t option_count;
    size_t shared_count; /* so many, at the start, belong to the verb that `about` names */
    size_t operand_min;
    size_t operand_max;
    int (*run)(struct qn_cli *cli); /* returns the exit code */
    /* Checks the values of its options as run does at first, reports faults, returns the exit code.
     * Operands, and options that it cannot do without, may be missing. NULL: nothing to check. */
    int (*check)(struct qn_cli *cli);
    bool unconfigured; /* it reads no configuration, or by itself */
};

struct qn_noun {
    const char *name;
    const char *summary;
    const struct qn_verb *verbs;
    size_t verb_count;
};

extern const struct qn_noun qn_noun_bench;
extern const struct qn_noun qn_noun_completion;
extern const struct qn_noun qn_noun_config;
extern const struct qn_noun qn_noun_db;
extern const struct qn_noun qn_noun_doctor;
extern const struct qn_noun qn_noun_enqueue;
extern const struct qn_noun qn_noun_error;
extern const struct qn_noun qn_noun_health;
extern const struct qn_noun qn_noun_help;
extern const struct qn_noun qn_noun_internal; /* in no table: see main.c */
extern const struct qn_noun qn_noun_limit;
extern const struct qn_noun qn_noun_metrics;
extern const struct qn_noun qn_noun_queue;
extern const struct qn_noun qn_noun_schedule;
extern const struct qn_noun qn_noun_stats;
extern const struct qn_noun qn_noun_task;
extern const struct qn_noun qn_noun_trash;
extern const struct qn_noun qn_noun_version;
extern const struct qn_noun qn_noun_watch;
extern const struct qn_noun qn_noun_work;
extern const struct qn_noun qn_noun_worker;

#define QN_COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* --- Messages (message.c) ---------------------------------------------------------------- */

/* Writes "quern: <where>: text" to stderr; control characters in the text are escaped. */
void qn_cli_message(const struct qn_cli *cli, const char *format, ...) QUERN_PRINTF(2, 3);
/* The same for dangers to tasks, which a log shows as a warning. */
void qn_cli_warn(const struct qn_cli *cli, const char *format, ...) QUERN_PRINTF(2, 3);
/* Reports the fault of the command line, points at the help, returns QN_EXIT_USAGE. Of a text that
 * begins with "--NAME", where the value comes from the configuration, it names that place and
 * returns QN_EXIT_CONFIG. */
int qn_cli_usage(const struct qn_cli *cli, const char *format, ...) QUERN_PRINTF(2, 3);
/* Reports the error, and the ACL that would be enough where a Redis user may not do something. */
void qn_cli_report_error(const struct qn_cli *cli, const quern_error *err);
/* The same, and returns the exit code of its status. */
int qn_cli_fail(const struct qn_cli *cli, const quern_error *err);
/* The exit code of a status that an operation gave. */
int qn_cli_exit_code(quern_status status);
/* Asks on the terminal; true: yes. Without a terminal it reports that --yes is needed; *ret_exit is
 * the exit code when the answer is not yes. */
QUERN_NODISCARD bool qn_cli_confirm(const struct qn_cli *cli, int *ret_exit, const char *format,
                                    ...) QUERN_PRINTF(3, 4);
/* The candidate nearest to `word`, or NULL when none is near enough to be a slip. */
const char *qn_cli_nearest(const char *word, const char *const *candidates, size_t count);

/* --- Help (help.c) -------------------------------------------------------------------- */

void qn_help_main(const struct qn_cli *cli, FILE *out);
void qn_help_noun(const struct qn_noun *noun, FILE *out);
void qn_help_verb(const struct qn_noun *noun, const struct qn_verb *verb, FILE *out);
const struct qn_noun *qn_cli_find_noun(const struct qn_cli *cli, const char *name);
const struct qn_verb *qn_cli_find_verb(const struct qn_noun *noun, const char *name);

/* --- The broker (broker_url.c, broker_secret.c, redact.c)
 * ------------------------------------------ */

/* Hides the password of --broker from ps, and finds the one that its password_env names. Reports
 * its errors, returns the exit code. */
QUERN_NODISCARD int qn_cli_take_broker_option(struct qn_cli *cli);
/* A copy of the URL, with the password that its password_env names. */
QUERN_NODISCARD int qn_cli_url_with_password(const struct qn_cli *cli, const char *url,
                                             char **ret_url);
/* The line as it may be shown: URLs of the command line in it without their passwords. */
void qn_cli_hide_passwords(const struct qn_cli *cli, const char *line, char *out, size_t out_size);
/* --broker, else the configured one, QUERN_BROKER, REDIS_URL, or the file under the XDG data
 * directory, whose directories are made when `create`. The text belongs to cli. */
QUERN_NODISCARD int qn_cli_broker_url(struct qn_cli *cli, bool create, const char **ret_url);
/* Whether --no-retry was given: the first failure to reach the broker is the end. */
bool qn_cli_no_retry(const struct qn_cli *cli);
/* These report their errors themselves, and return the exit code. */
QUERN_NODISCARD int qn_cli_open_client(struct qn_cli *cli, const quern_client_options *options,
                                       quern_client **ret_client);
QUERN_NODISCARD int qn_cli_open_inspector(struct qn_cli *cli, bool create,
                                          quern_inspector **ret_inspector);
/* Warns of a name with a comma or a * that no queue has: it is probably meant as a list or as a
 * pattern, and what is set for it has no effect on others. An error of the broker is left to what
 * follows. */
void qn_cli_warn_odd_queue(const struct qn_cli *cli, quern_inspector *inspector, const char *name,
                           const char *advice);
/* Whether opening it for work will make a file, and the line that reports it afterwards: a user who
 * named the wrong directory should see it. */
bool qn_cli_will_make_file(const char *url);
void qn_cli_report_made(const struct qn_cli *cli, bool made, const char *url);
/* The exit code for an error of opening: an URL that is wrong is configuration, a file that is not
 * there is a broker that is not available. */
int qn_cli_open_failed(const struct qn_cli *cli, const quern_error *err);

#endif
