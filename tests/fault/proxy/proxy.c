/* SPDX-License-Identifier: MIT */
/* proxy.c - the program fault_proxy: lib_proxy.h for tests in other languages, and by hand.
 *
 *     fault_proxy --server ADDRESS [--listen ADDRESS] [--seed N] [--rate PERMILLE]
 *                 [--faults NAME,...] [--count N]
 *
 * An address is 127.0.0.1:PORT or the path of a Unix socket; port 0 is any that is free. The first
 * line of output is "ready ADDRESS", then comes a line for each fault. Lines of input are orders,
 * each answered by "ok" and a number:
 *
 *     rule FAULT [to=COMMAND] [by=NAME] [error=NAME] [skip=N] [count=N] [at=BYTE] [ms=N] [hang-up]
 *     clear                                 no rules any more
 *     dice PERMILLE [FAULT,...] [COUNT]     0: none
 *     state open|refuses|swallows|vanished
 *     crawl TAKEN GIVEN                     bytes in a second of each link; 0: as many as come
 *     break swallows|vanished|refuses [NAME]
 *     count [FAULT]
 *
 * It ends at the end of its input. */
#include "lib_proxy.h"

#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 512
#define WORDS_MAX 16
#define TEXT_SIZE 64

static const char *const states[] = {[PROXY_OPEN] = "open",
                                     [PROXY_REFUSES] = "refuses",
                                     [PROXY_SWALLOWS] = "swallows",
                                     [PROXY_VANISHED] = "vanished"};

static void refuse(const char *what)
{
    (void)fprintf(stderr, "fault_proxy: %s?\n", what);
    exit(64);
}

static enum proxy_state state_of(const char *name)
{
    for (size_t i = 0; i < TEST_COUNT(states); i++) {
        if (strcmp(states[i], name) == 0) {
            return (enum proxy_state)i;
        }
    }
    refuse(name);
    return PROXY_OPEN;
}

/* "a,b,c"; "all". */
static uint32_t faults_of(const char *list)
{
    uint32_t faults = strcmp(list, "all") == 0 ? PROXY_ALL : 0;
    for (const char *at = list; faults != PROXY_ALL && *at != '\0';) {
        size_t size = strcspn(at, ",");
        enum proxy_fault fault = proxy_fault_of(at, size);
        if (fault == PROXY_NOTHING) {
            refuse(at);
        }
        faults |= PROXY_BIT(fault);
        at += size + (at[size] == ',' ? 1 : 0);
    }
    return faults;
}

/* --- Orders ------------------------------------------------------------------------- */

struct texts {
    char to[TEXT_SIZE];
    char by[TEXT_SIZE];
};

struct desk {
    struct proxy *proxy;
    struct texts texts[PROXY_RULES_MAX]; /* of the rules */
    struct proxy_rule rules[PROXY_RULES_MAX];
    size_t rule_count;
};

static const char *keep(char out[TEXT_SIZE], const char *text)
{
    (void)snprintf(out, TEXT_SIZE, "%s", text);
    return out;
}

static void read_option(struct proxy_rule *rule, struct texts *texts, const char *word)
{
    size_t size = strcspn(word, "=");
    const char *value = word[size] == '=' ? word + size + 1 : "";
    if (strncmp(word, "to=", 3) == 0) {
        rule->to = keep(texts->to, value);
    } else if (strncmp(word, "by=", 3) == 0) {
        rule->by = keep(texts->by, value);
    } else if (strncmp(word, "error=", 6) == 0) {
        rule->error = proxy_error_text(value);
    } else if (strncmp(word, "skip=", 5) == 0) {
        rule->skip = strtoul(value, NULL, 10);
    } else if (strncmp(word, "count=", 6) == 0) {
        rule->count = strtoul(value, NULL, 10);
    } else if (strncmp(word, "at=", 3) == 0) {
        rule->at = strtoul(value, NULL, 10);
    } else if (strncmp(word, "ms=", 3) == 0) {
        rule->ms = strtol(value, NULL, 10);
    } else if (strcmp(word, "hang-up") == 0) {
        rule->hang_up = true;
    } else {
        refuse(word);
    }
}

static size_t add_rule(struct desk *desk, char *const words[], size_t count)
{
    if (count < 2 || desk->rule_count == PROXY_RULES_MAX) {
        refuse("rule");
    }
    struct texts *texts = &desk->texts[desk->rule_count];
    struct proxy_rule rule = {.fault = proxy_fault_of(words[1], strlen(words[1]))};
    for (size_t i = 2; i < count; i++) {
        read_option(&rule, texts, words[i]);
    }
    if (rule.fault == PROXY_NOTHING || (rule.fault == PROXY_ERROR && rule.error == NULL)) {
        refuse("rule");
    }
    desk->rules[desk->rule_count++] = rule;
    proxy_rules(desk->proxy, desk->rules, desk->rule_count);
    return desk->rule_count;
}

static size_t obey(struct desk *desk, char *const words[], size_t count)
{
    const char *order = words[0];
    const char *first = count > 1 ? words[1] : "";
    if (strcmp(order, "rule") == 0) {
        return add_rule(desk, words, count);
    }
    if (strcmp(order, "clear") == 0) {
        desk->rule_count = 0;
        proxy_rules(desk->proxy, NULL, 0);
        return 0;
    }
    if (strcmp(order, "dice") == 0) {
        proxy_dice(desk->proxy, (unsigned)strtoul(first, NULL, 10),
                   count > 2 ? faults_of(words[2]) : PROXY_ALL,
                   count > 3 ? strtoul(words[3], NULL, 10) : 0);
        return 0;
    }
    if (strcmp(order, "state") == 0) {
        proxy_set_state(desk->proxy, state_of(first));
        return 0;
    }
    if (strcmp(order, "crawl") == 0 && count > 2) {
        const struct proxy_rates rates = {.taken = (unsigned)strtoul(first, NULL, 10),
                                          .given = (unsigned)strtoul(words[2], NULL, 10)};
        proxy_crawl(desk->proxy, rates);
        return 0;
    }
    if (strcmp(order, "break") == 0) {
        return proxy_break_links(desk->proxy, count > 2 ? words[2] : NULL, state_of(first));
    }
    if (strcmp(order, "count") == 0 && count > 1) {
        return proxy_count(desk->proxy, proxy_fault_of(first, strlen(first)));
    }
    if (strcmp(order, "count") == 0) {
        return proxy_count_all(desk->proxy);
    }
    refuse(order);
    return 0;
}

static void obey_all(struct desk *desk)
{
    char line[LINE_SIZE];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *words[WORDS_MAX];
        char *rest = NULL;
        size_t count = 0;
        for (char *word = strtok_r(line, " \n", &rest); word != NULL && count < WORDS_MAX;
             word = strtok_r(NULL, " \n", &rest)) {
            words[count++] = word;
        }
        if (count > 0) {
            (void)printf("ok %zu\n", obey(desk, words, count));
            (void)fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    struct proxy_options options = {.listen = "127.0.0.1:0", .seed = 1, .log = stdout};
    unsigned permille = 0;
    size_t count = 0;
    uint32_t faults = PROXY_ALL;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--server") == 0) {
            options.server = value;
        } else if (strcmp(argv[i], "--listen") == 0) {
            options.listen = value;
        } else if (strcmp(argv[i], "--seed") == 0) {
            options.seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--rate") == 0) {
            permille = (unsigned)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--faults") == 0) {
            faults = faults_of(value);
        } else if (strcmp(argv[i], "--count") == 0) {
            count = strtoul(value, NULL, 10);
        } else {
            refuse(argv[i]);
        }
    }
    if (options.server == NULL) {
        refuse("--server");
    }
    struct desk desk = {.proxy = proxy_start(&options)};
    proxy_dice(desk.proxy, permille, faults, count);
    (void)printf("ready %s\n", proxy_address(desk.proxy));
    (void)fflush(stdout);
    obey_all(&desk);
    proxy_stop(desk.proxy);
    return 0;
}
