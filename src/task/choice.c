/* SPDX-License-Identifier: MIT */
/* choice.c - smooth weighted round robin over the queues of a worker.
 *
 * Every queue has a credit. One draw adds to each its weight, takes the queue with the highest
 * credit, and lets it pay the sum of the weights; so credits stay within about one turn of each
 * other, and any row of draws has the exact shares, give or take a turn per queue.
 *
 * A draw is a guess: the queue may turn out to have nothing. So once the broker has replied, the
 * draws are taken back, and the queues that do have tasks share the payment for the taken tasks
 * among themselves: their shares are exact even if the same queue takes every slot of the others. A
 * queue that was found empty owes nothing and is owed little: it keeps at most half a turn as its
 * claim, and the claim of an empty queue that was not queried again grows towards a whole turn (a
 * row, where turns are rows). So each empty queue is queried at least about as often as its weight
 * demands, and none takes everything after a quiet hour. */
#include "task/choice.h"

#include <string.h>

#include "base/assert.h"
#include "base/bug.h"

/* The queue with the highest credit (or remainder); on a tie the heavier one, then the first. */
static size_t highest(const int64_t *credits, const uint32_t *weights, size_t queue_count)
{
    size_t best = 0;
    for (size_t i = 1; i < queue_count; i++) {
        bool is_higher = credits[i] > credits[best] ||
                         (credits[i] == credits[best] && weights[i] > weights[best]);
        if (is_higher) {
            best = i;
        }
    }
    return best;
}

/* --- Rows -------------------------------------------------------------------------------- */

/* Each queue in an exchange has a price at the broker. Among enough queues, where an exchange has
 * much room, a queue takes a row of slots when it is its turn, and the rest of it at the next draw.
 * Rows are laid so that ROUND slots are a round: of the same queues in the same order, each with
 * its share in rows of equal length. So any thousand starts have the exact shares, as without. */
enum { ROUND = 1000, REDRAW_PART = 1024 };
/* One call asks for all queues: few of them cost hardly more than one. */
static const struct qn_choice_terms terms_together = {.queues_min = 9, .row_max = 50};
/* Each queue is asked by a call of its own: a second one costs as much again. */
static const struct qn_choice_terms terms_apart = {.queues_min = 2, .row_max = 500};
#define SLOT INT64_C(65536) /* a slot, where parts of slots are counted */

static void init_rows(struct qn_choice *choice)
{
    for (size_t i = 0; i < choice->queue_count; i++) {
        uint64_t row_max =
            choice->weight_sum * choice->terms.row_max * (QN_BUG(ROW_TOO_LONG) ? 3 : 1);
        uint64_t share = ROUND * (uint64_t)choice->weights[i];
        choice->rows[i].count = (int64_t)((share + row_max - 1) / row_max);
    }
}

/* What slots are multiplied with, so that the length of the queue's rows is a whole number. */
static int64_t unit_of(const struct qn_choice *choice, size_t queue)
{
    return (int64_t)choice->weight_sum * choice->rows[queue].count;
}

static int64_t length_of(const struct qn_choice *choice, size_t queue)
{
    return ROUND * (int64_t)choice->weights[queue];
}

/* What it is owed when its next row ends, as if its rows had had their exact length; by weight, so
 * in slots of all queues. */
static int64_t claim_of_row(const struct qn_choice *choice, size_t queue)
{
    const struct qn_choice_row *row = &choice->rows[queue];
    int64_t claim = choice->credits[queue] * row->count - length_of(choice, queue) - row->rest;
    return claim * SLOT / (row->count * (int64_t)choice->weights[queue]);
}

/* The queue whose next row would be late first; on a tie the heavier one, then the first. One that
 * was empty is asked once in a draw, if the others are not, too. */
static size_t most_urgent(const struct qn_choice *choice, const uint32_t *quota)
{
    size_t best = choice->queue_count;
    int64_t best_claim = INT64_MIN;
    for (size_t i = 0; i < choice->queue_count; i++) {
        bool is_asked = choice->empty[i] && quota[i] > 0;
        int64_t claim = is_asked ? INT64_MIN : claim_of_row(choice, i);
        if (best == choice->queue_count || claim > best_claim ||
            (claim == best_claim && choice->weights[i] > choice->weights[best])) {
            best = i;
            best_claim = claim;
        }
    }
    return best;
}

/* What the rows of all queues were too short so far, at most half a slot. */
static int64_t rest_of_round(const struct qn_choice *choice)
{
    int64_t rest = 0;
    for (size_t i = 0; i < choice->queue_count; i++) {
        rest += choice->rows[i].rest * SLOT / unit_of(choice, i);
    }
    rest /= 2;
    rest = rest > SLOT / 2 ? SLOT / 2 : rest;
    return rest < -SLOT / 2 ? -SLOT / 2 : rest;
}

/* Begins the row of the queue whose turn it is. Parts of slots are carried, to its next row and to
 * the rows of the others, so that it has its share, and a round its length. A queue that was empty
 * is asked for a single task: others would have to fill in for a row. */
static void begin_row(struct qn_choice *choice, const uint32_t *quota)
{
    int64_t slots = 0;
    while (slots <= 0) {
        size_t queue = most_urgent(choice, quota);
        int64_t unit = unit_of(choice, queue);
        int64_t wanted = length_of(choice, queue) + choice->rows[queue].rest;
        int64_t parts = wanted * SLOT / unit + rest_of_round(choice) + SLOT / 2;
        bool is_question = choice->empty[queue] && quota[queue] == 0;
        slots = is_question ? 1 : parts < 0 ? 0 : parts / SLOT;
        choice->rows[queue].rest = is_question ? 0 : wanted - slots * unit;
        choice->row_queue = queue;
    }
    choice->row_left = (uint32_t)slots;
}

/* Slots one by one and rows have credits of their own: what a row leaves unbalanced is settled by
 * other rows, and by no worker that has become slow meanwhile. */
static void draw_in_rows(struct qn_choice *choice, bool in_rows)
{
    for (size_t i = 0; in_rows != choice->in_rows && i < choice->queue_count; i++) {
        int64_t credit = choice->credits[i];
        choice->credits[i] = choice->other_credits[i];
        choice->other_credits[i] = credit;
    }
    choice->in_rows = in_rows;
}

/* The queue of the next slot, whose turn has been added to all credits. */
static size_t next_queue(struct qn_choice *choice, const uint32_t *quota)
{
    if (!choice->in_rows) {
        return highest(choice->credits, choice->weights, choice->queue_count);
    }
    if (choice->row_left == 0) {
        begin_row(choice, quota);
    }
    choice->row_left--;
    return choice->row_queue;
}

void qn_choice_init(struct qn_choice *choice, const uint32_t *weights, size_t queue_count,
                    bool strict, struct qn_random *random)
{
    QN_ASSERT(queue_count > 0 && queue_count <= QN_QUEUES_MAX);
    *choice =
        (struct qn_choice){.queue_count = queue_count, .strict = strict, .terms = terms_together};
    for (size_t i = 0; i < queue_count; i++) {
        QN_ASSERT(weights[i] > 0);
        choice->weights[i] = QN_BUG(WEIGHT_IGNORED) ? 1 : weights[i];
        choice->weight_sum += choice->weights[i];
    }
    init_rows(choice);
    /* The first turn goes to a queue with the probability of its weight: credits are set as they
     * are one draw before the point where the round starts over and that queue is next. */
    uint64_t point = qn_random_below(random, choice->weight_sum);
    size_t first = 0;
    while (point >= choice->weights[first]) {
        point -= choice->weights[first];
        first++;
    }
    for (size_t i = 0; i < queue_count; i++) {
        choice->credits[i] = -(int64_t)choice->weights[i];
    }
    choice->credits[first] += (int64_t)choice->weight_sum;
    memcpy(choice->other_credits, choice->credits, sizeof choice->credits);
}

void qn_choice_ask_apart(struct qn_choice *choice)
{
    choice->terms = terms_apart;
    init_rows(choice);
}

void qn_choice_draw(struct qn_choice *choice, size_t room, bool is_fast, uint16_t *order,
                    uint32_t *quota)
{
    for (size_t i = 0; i < choice->queue_count; i++) {
        quota[i] = choice->strict ? (uint32_t)room : 0;
    }
    if (choice->strict) {
        return;
    }
    draw_in_rows(choice, is_fast && room >= QN_BATCH_WORTH &&
                             choice->queue_count >= choice->terms.queues_min);
    for (size_t slot = 0; slot < room; slot++) {
        for (size_t i = 0; i < choice->queue_count; i++) {
            choice->credits[i] += choice->weights[i];
        }
        size_t queue = next_queue(choice, quota);
        choice->credits[queue] -= (int64_t)choice->weight_sum;
        order[slot] = (uint16_t)queue;
        quota[queue]++;
    }
}

void qn_choice_redraw_weights(const struct qn_choice *choice, size_t room, const uint32_t *quota,
                              uint32_t *weights)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < choice->queue_count; i++) {
        bool is_less = !choice->empty[i] && choice->credits[i] < least;
        least = is_less ? choice->credits[i] : least;
    }
    for (size_t i = 0; i < choice->queue_count; i++) {
        int64_t weight = (int64_t)room * choice->weights[i];
        weight += least == INT64_MAX ? 0 : choice->credits[i] - least;
        weight /= choice->in_rows && quota[i] == 0 ? REDRAW_PART : 1;
        weight = weight < 1 ? 1 : weight;
        weights[i] = weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight;
    }
}

/* As if the slots had never been drawn. */
static void take_back(struct qn_choice *choice, const uint32_t *quota)
{
    int64_t room = 0;
    for (size_t i = 0; i < choice->queue_count; i++) {
        room += quota[i];
    }
    for (size_t i = 0; i < choice->queue_count; i++) {
        choice->credits[i] += (int64_t)choice->weight_sum * quota[i];
        choice->credits[i] -= room * choice->weights[i];
    }
}

/* The claim of an empty queue after `taken_sum` slots were given to others. */
static int64_t claim_of_empty(const struct qn_choice *choice, size_t queue, bool asked,
                              int64_t taken_sum)
{
    int64_t claim = choice->credits[queue] + taken_sum * choice->weights[queue];
    int64_t row = choice->in_rows ? length_of(choice, queue) / unit_of(choice, queue) + 1 : 1;
    int64_t claim_max = (int64_t)choice->weight_sum * row / (asked ? 2 : 1);
    return claim < claim_max ? claim : claim_max;
}

/* Keeps the credits of the queues with tasks around 0, so that the limits of claims mean the same
 * at any time. Order and distances stay as they are. */
static void centre(struct qn_choice *choice)
{
    int64_t sum = 0;
    int64_t count = 0;
    for (size_t i = 0; i < choice->queue_count; i++) {
        sum += choice->empty[i] ? 0 : choice->credits[i];
        count += choice->empty[i] ? 0 : 1;
    }
    for (size_t i = 0; count > 0 && i < choice->queue_count; i++) {
        choice->credits[i] -= sum / count;
    }
}

void qn_choice_settle(struct qn_choice *choice, const uint32_t *quota, const uint32_t *taken)
{
    if (choice->strict) {
        return;
    }
    take_back(choice, quota);
    if (taken[choice->row_queue] < quota[choice->row_queue]) {
        choice->row_left = 0; /* it has nothing more */
    }
    int64_t taken_sum = 0;
    int64_t others_taken = 0;
    int64_t others_weight = 0;
    for (size_t i = 0; i < choice->queue_count; i++) {
        if (taken[i] < quota[i]) {
            choice->empty[i] = true;
        } else if (taken[i] > 0) {
            choice->empty[i] = false;
        }
        taken_sum += taken[i];
        others_taken += choice->empty[i] ? 0 : taken[i];
        others_weight += choice->empty[i] ? 0 : choice->weights[i];
    }
    if (taken_sum == 0) {
        return; /* no queue was overtaken */
    }
    for (size_t i = 0; i < choice->queue_count; i++) {
        if (choice->empty[i]) {
            choice->credits[i] = claim_of_empty(choice, i, quota[i] > 0, taken_sum);
        } else {
            choice->credits[i] += others_taken * choice->weights[i] - others_weight * taken[i];
        }
    }
    centre(choice);
}

/* --- Redrawing --------------------------------------------------------------------------- */

/* Slots are divided by the method of the largest remainders. */
struct division {
    size_t queue_count;
    uint32_t shares[QN_QUEUES_MAX]; /* the weights; 0: this queue has nothing more to give */
    uint64_t share_sum;
    int64_t remainders[QN_QUEUES_MAX];
};

static void weigh(struct division *division, const uint32_t *weights, const bool *more,
                  size_t queue_count)
{
    division->queue_count = queue_count;
    division->share_sum = 0;
    for (size_t i = 0; i < queue_count; i++) {
        uint32_t weight = QN_BUG(WEIGHT_IGNORED) ? 1 : weights[i];
        division->shares[i] = more[i] ? weight : 0;
        division->share_sum += division->shares[i];
    }
}

/* To each queue the whole slots of its exact part. Returns how many that were. */
static size_t place_whole(struct division *division, size_t room, uint32_t *want)
{
    size_t placed = 0;
    for (size_t i = 0; i < division->queue_count; i++) {
        uint64_t exact = (uint64_t)room * division->shares[i]; /* times share_sum */
        size_t whole = (size_t)(exact / division->share_sum);
        division->remainders[i] = (int64_t)(exact % division->share_sum);
        want[i] += (uint32_t)whole;
        placed += whole;
    }
    return placed;
}

/* The slots that are left, fewer than there are queues, to the largest remainders. */
static void place_rest(struct division *division, size_t room, uint32_t *want)
{
    for (size_t slot = 0; slot < room; slot++) {
        size_t queue = highest(division->remainders, division->shares, division->queue_count);
        division->remainders[queue] -= (int64_t)division->share_sum;
        want[queue]++;
    }
}

size_t qn_choice_redraw(const uint32_t *weights, const bool *more, size_t queue_count, size_t room,
                        uint32_t *want)
{
    QN_ASSERT(queue_count <= QN_QUEUES_MAX);
    struct division division;
    weigh(&division, weights, more, queue_count);
    if (division.share_sum == 0) {
        return 0;
    }
    size_t placed = place_whole(&division, room, want);
    place_rest(&division, room - placed, want);
    return room;
}
