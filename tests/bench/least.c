/* SPDX-License-Identifier: MIT */
/* least.c - the least that a task costs Redis in asynq's data: its list, its hash, its lease.
 *
 * Two scripts a batch, which do what asynq's dequeue and done do to the data, and nothing that
 * makes a queue reliable: no token, so any worker could end any run; no kept answer, so a lost
 * reply loses a batch; no check of existing keys, so damage spreads. Every program that keeps
 * asynq's data by Lua pays for this, so it shows the limit of a machine. */
#include <stdio.h>
#include <string.h>

#include "bare.h"

static const char enqueue_text[] =
    "local count, time = #ARGV / 2, redis.call('TIME') "
    "local since = time[1] .. time[2] .. '000' "
    "for i = 1, count do "
    "  redis.call('HSET', KEYS[1] .. 't:' .. ARGV[i], 'msg', ARGV[count + i], "
    "    'state', 'pending', 'pending_since', since) "
    "end "
    "return redis.call('LPUSH', KEYS[1] .. 'pending', unpack(ARGV, 1, count))";

static const char lease_text[] = "local ids = redis.call('RPOP', KEYS[1] .. 'pending', ARGV[1]) "
                                 "if not ids then return {} end "
                                 "local leases, messages = {}, {} "
                                 "for i, id in ipairs(ids) do "
                                 "  local task = KEYS[1] .. 't:' .. id "
                                 "  redis.call('HSET', task, 'state', 'active') "
                                 "  redis.call('HDEL', task, 'pending_since') "
                                 "  messages[i] = redis.call('HGET', task, 'msg') "
                                 "  leases[2 * i - 1], leases[2 * i] = ARGV[2], id "
                                 "end "
                                 "redis.call('LPUSH', KEYS[1] .. 'active', unpack(ids)) "
                                 "redis.call('ZADD', KEYS[1] .. 'lease', unpack(leases)) "
                                 "return {ids, messages}";

static const char done_text[] = "local tasks = {} "
                                "for i, id in ipairs(ARGV) do "
                                "  redis.call('LREM', KEYS[1] .. 'active', '-1', id) "
                                "  tasks[i] = KEYS[1] .. 't:' .. id "
                                "end "
                                "redis.call('ZREM', KEYS[1] .. 'lease', unpack(ARGV)) "
                                "redis.call('DEL', unpack(tasks)) "
                                "redis.call('INCRBY', KEYS[1] .. 'processed', #ARGV) "
                                "redis.call('INCRBY', KEYS[1] .. 'processed:2026-11-21', #ARGV) "
                                "return #ARGV";

void least_enqueue(const char *socket, size_t count)
{
    static struct caller caller;
    static struct bare_tasks tasks;
    char enqueue[SHA1_DIGITS + 1];
    caller_open(&caller, socket);
    caller_load(&caller, enqueue_text, strlen(enqueue_text), enqueue);
    bare_tasks_init(&tasks);
    for (size_t left = count; left > 0;) {
        size_t batch = left < BATCH ? left : BATCH;
        bare_tasks_next(&tasks, batch);
        caller_begin(&caller, enqueue);
        bare_tasks_put(&tasks, &caller, batch);
        caller_send(&caller);
        freeReplyObject(caller_receive(&caller));
        left -= batch;
    }
    bare_tasks_finish(&tasks);
    caller_close(&caller);
}

void least_drain(const char *socket, size_t count)
{
    static struct caller caller;
    char lease[SHA1_DIGITS + 1];
    char done[SHA1_DIGITS + 1];
    caller_open(&caller, socket);
    caller_load(&caller, lease_text, strlen(lease_text), lease);
    caller_load(&caller, done_text, strlen(done_text), done);
    while (count > 0) {
        caller_begin(&caller, lease);
        caller_put(&caller, "128");
        caller_put(&caller, "1800000030");
        caller_send(&caller);
        redisReply *leased = caller_receive(&caller);
        if (leased->elements != 2) {
            die("a task is missing");
        }
        const redisReply *ids = leased->element[0];
        caller_begin(&caller, done);
        for (size_t i = 0; i < ids->elements; i++) {
            caller_put_bytes(&caller, ids->element[i]->str, (size_t)ids->element[i]->len);
        }
        caller_send(&caller);
        freeReplyObject(caller_receive(&caller));
        count -= ids->elements;
        freeReplyObject(leased);
    }
    caller_close(&caller);
}
