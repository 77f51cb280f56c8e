/* SPDX-License-Identifier: MIT */
/* args.h - the words behind a verb, read by the verb's own table of options.
 *
 * One table serves the parser, the configuration (cli/config), --help, the did-you-mean and the
 * shell completion, so that none of them can forget an option. Options and operands may come in any
 * order; "--" ends the options. */
#ifndef QN_CLI_ARGS_H
#define QN_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/export.h"

enum qn_option_kind {
    QN_OPTION_FLAG,     /* no argument */
    QN_OPTION_TEXT,     /* as it is */
    QN_OPTION_COUNT,    /* a whole number from min to max */
    QN_OPTION_DURATION, /* see base/text/duration.h; number is in ms, from min to max */
    QN_OPTION_SIZE,     /* number is in bytes, see base/text/size.h */
    QN_OPTION_MOMENT    /* number is ms since the epoch */
};

struct qn_option {
    const char *name;     /* without the dashes */
    const char *argument; /* as help shows it; NULL for a flag */
    const char *help;
    enum qn_option_kind kind;
    bool repeats;
    int64_t min;
    int64_t max;       /* 0: no upper limit */
    char letter;       /* 'v' for -v; 0: none */
    const char *alias; /* a shorter name, or one that other programs have; NULL: none */
    bool unlisted;     /* help names it without a line, for lack of room: see the manual */
    bool never;        /* a limit that "never" or -1 turns off (number is -1); 0 is refused. Of a
                        * moment or a size only "never" */
};

#define QN_OPTION_MAX 48 /* of one verb; of these 18 or so fit the help's screen */

/* Where a value comes from: a later one is stronger. */
enum qn_source { QN_SOURCE_DEFAULT, QN_SOURCE_FILE, QN_SOURCE_ENVIRONMENT, QN_SOURCE_LINE };

struct qn_option_value {
    const char *text; /* NULL: not given, or a flag that is off; a flag has its own name here */
    int64_t number;
    enum qn_source source;
    size_t line; /* of the file */
};

struct qn_repeat {
    size_t option;
    const char *text;
    size_t line; /* of the file */
};

/* Options that every verb takes, anywhere on the line. */
enum qn_global {
    QN_GLOBAL_BROKER,
    QN_GLOBAL_CONFIG,
    QN_GLOBAL_CONTEXT,
    QN_GLOBAL_JSON,
    QN_GLOBAL_NO_RETRY,
    QN_GLOBAL_HELP,
    QN_GLOBAL_VERSION
};
#define QN_GLOBAL_COUNT 7
extern const struct qn_option qn_args_globals[QN_GLOBAL_COUNT];

struct qn_args {
    int argc;
    char **argv;
    int position;                    /* of the next word to read */
    const struct qn_option *options; /* the verb's; NULL until the verb is known */
    size_t option_count;
    struct qn_option_value globals[QN_GLOBAL_COUNT];
    struct qn_option_value values[QN_OPTION_MAX];
    struct qn_repeat *repeats;
    size_t repeat_count;
    size_t repeat_capacity;
    const char **operands; /* room for argc of them */
    size_t operand_count;
    char problem[512]; /* the fault of the line, after a function here returned false */
};

void qn_args_init(struct qn_args *args, int argc, char **argv);
void qn_args_finish(struct qn_args *args);
/* Reads global options up to the next word that is none; NULL at the end of the line, or, with
 * args->problem set, at a word that is not understood. */
QUERN_NODISCARD const char *qn_args_next_word(struct qn_args *args);
/* Reads the rest of the line by the verb's options. False: args->problem has the reason. */
QUERN_NODISCARD bool qn_args_parse(struct qn_args *args, const struct qn_option *options,
                                   size_t option_count);

/* An option of a table by its name or its other one, with - or _ between its words; NULL: none. */
const struct qn_option *qn_args_find(const struct qn_option *options, size_t count,
                                     const char *name);
/* A value from elsewhere than the line, which must be there as long as args: of an option of the
 * verb's table or of qn_args_globals. A flag wants true or false. A repeated option gets one more.
 * False: args->problem has the reason. */
QUERN_NODISCARD bool qn_args_set(struct qn_args *args, const struct qn_option *option,
                                 const char *text, enum qn_source source, size_t line);
/* What is known of the option's value. */
const struct qn_option_value *qn_args_value(const struct qn_args *args,
                                            const struct qn_option *option);
bool qn_args_given(const struct qn_args *args, size_t option);
const char *qn_args_text(const struct qn_args *args, size_t option); /* NULL: not given */
int64_t qn_args_number(const struct qn_args *args, size_t option, int64_t fallback);
/* The index-th text of a repeated option; NULL behind the last. */
const char *qn_args_repeat(const struct qn_args *args, size_t option, size_t index);
const char *qn_args_operand(const struct qn_args *args, size_t index); /* NULL: not given */

#endif
