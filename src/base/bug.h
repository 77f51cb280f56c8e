/* SPDX-License-Identifier: MIT */
/* bug.h - planted faults, which show that the tests detect faults.
 *
 * Built with -DQUERN_SEEDED_BUGS=ON, the environment variable QUERN_SEEDED_BUG chooses one by its
 * number and QN_BUG(NAME) is true for it; in every other build QN_BUG is the constant 0. In a Lua
 * script the line "-- bug NAME: LINE" contains the replacement of the line above it. For each there
 * is a named test that fails with it, over each broker that can have it: scripts/check_seeded_bugs
 * shows that. */
#ifndef QN_BASE_BUG_H
#define QN_BASE_BUG_H

enum qn_bug {
    QN_BUG_NONE = 0,
    QN_BUG_TOKEN_UNCHECKED = 1,   /* an outcome is applied without comparing its token */
    QN_BUG_UNSTARTED_CHARGED = 2, /* a crash is charged to runs that had not started */
    QN_BUG_PAUSE_NOT_ARMED = 3,   /* resuming a paused queue does not wake sleepers */
    QN_BUG_EARLIER_DUE_NOT_ARMED =
        4,                          /* a delayed task due before the known next one does not wake */
    QN_BUG_FAILED_RUN_SALVAGED = 5, /* salvage takes failed runs too */
    QN_BUG_TRIM_UNBOUNDED = 6,      /* the archive is trimmed in one step of any size */
    QN_BUG_EXTEND_CHANGES_TOKEN = 7, /* extending a lease gives it a new token */
    QN_BUG_UNIQUE_LOCK_WRONG = 8,    /* the lock is freed by a retry and kept by done */
    QN_BUG_RETRY_COUNTED_TWICE = 9,  /* a failure adds two to retry_count */
    QN_BUG_WEIGHT_IGNORED = 10,      /* all queues have the same share */
    QN_BUG_DEADLINE_IGNORED = 11,    /* a task past its deadline is run */
    QN_BUG_GIVE_BACK_AT_TAIL = 12,   /* a given-back task goes to the end of its queue */
    QN_BUG_REPLAY_IGNORED = 13,      /* a replayed request is executed again */
    /* Redis */
    QN_BUG_WRITE_BEFORE_READ = 14,     /* a script writes before it knows that it can go on */
    QN_BUG_OLD_TRACKER = 15,           /* arm, reconnected, redirects to the lost listener */
    QN_BUG_RECONNECT_FORGETS = 16,     /* a request replayed after a reconnect is executed again */
    QN_BUG_GHOST_LEASED = 17,          /* an id without a task is leased */
    QN_BUG_SECOND_SHARES_SESSION = 18, /* both exchanges in flight have the same session */
    /* Deaths */
    QN_BUG_SHARED_IS_LONE = 31,          /* the death of a worker with several runs is a lone one */
    QN_BUG_OK_ELSEWHERE = 32,            /* a run that ended well on another host convicts */
    QN_BUG_BRAKE_EVERYWHERE = 33,        /* the brake of one host holds on all */
    QN_BUG_SOLO_IN_COMPANY = 34,         /* a task that must run alone is leased without the solo
                                          * lock */
    QN_BUG_REST_FORGOTTEN = 35,          /* a solo lock that was returned is free at once */
    QN_BUG_CHARGED_NOT_OVERTAKEN = 36,   /* a charged task without room holds up the others */
    QN_BUG_LIVING_OWNER_CHARGED = 37,    /* an expired lease of a live worker is a death */
    QN_BUG_LEAVING_WORKER_CHARGED = 38,  /* the end of a draining worker is a death */
    QN_BUG_SPENT_RUN_AGAIN = 39,         /* a task without attempts left runs again */
    QN_BUG_PROBE_NOT_BEHIND = 40,        /* a probe that died goes back to its old place */
    QN_BUG_LEAVING_WORKER_RELEASES = 41, /* a run of a draining worker releases the brake */
    QN_BUG_CHARGE_NOT_MARKED = 42,       /* a charged run is not marked as started */
    QN_BUG_CHILD_ISOLATED = 55,          /* the death of a child costs a task its company */
    QN_BUG_PARENT_NOT_ISOLATED = 56,     /* the death of a worker costs it none */
    /* Children */
    QN_BUG_NEIGHBOUR_CHARGED = 57,    /* the death of a child is charged to the last of its runs */
    QN_BUG_ON_CRASH_IGNORED = 58,     /* a crashed run goes back to its queue, whatever its handler
                                       * wants */
    QN_BUG_LIMITS_STAY = 59,          /* the limits of a run are those of the next one, too */
    QN_BUG_FRAME_SIZE_BELIEVED = 295, /* a frame of a child may announce any size */
    QN_BUG_SLOT_NOT_COMPARED = 296,   /* a run that has started can be taken back */
    QN_BUG_TAKEN_IS_RUN = 297,        /* a child runs what was taken back */
    QN_BUG_GROUP_STAYS = 298,         /* what a child has started outlives it */
    QN_BUG_TOKEN_NOT_HANDED_OVER = 299, /* the next program has runs without their tokens */
    /* Many queues in one call */
    QN_BUG_CALL_PER_QUEUE = 341,      /* Redis: the outcomes of each queue are a call */
    QN_BUG_QUEUE_ERROR_SPREADS = 342, /* Redis: a damaged queue ends the call for all */
    QN_BUG_REFUSED_QUEUE_LEFT = 343,  /* Redis: a replay does not try what was refused */
    QN_BUG_APPLIED_QUEUE_AGAIN = 344, /* Redis: a replay tries all queues when one was refused */
    QN_BUG_ROW_TOO_LONG = 345,        /* a queue takes so many slots in a row that others wait */
    /* Replies of a server */
    QN_BUG_DEADLINE_WHILE_IDLE = 81,  /* a deadline is checked only while nothing comes */
    QN_BUG_LINE_WITHOUT_END = 82,     /* a line may have any length */
    QN_BUG_ARRAY_BELIEVED = 83,       /* an array gets the room that it announces */
    QN_BUG_HEAD_BELIEVED = 84,        /* a malformed head of a lease's answer is taken */
    QN_BUG_MOMENT_BELIEVED = 85,      /* a moment planted by others is not clamped */
    QN_BUG_OWED_REPLY_LEFT = 86,      /* a connection is reused while a reply is still owed on it */
    QN_BUG_END_UNREPORTED = 100,      /* the end of a task brings clients that wait no notice */
    QN_BUG_LOST_UNNOTED = 101,        /* SQLite: such a notice that finds no room leaves no note */
    QN_BUG_SOCKET_NOT_RENEWED = 102,  /* SQLite: a client waits at a socket that was removed */
    QN_BUG_DIRECTORY_BY_ANYONE = 103, /* SQLite: any user that waits makes the directory */
    QN_BUG_READ_UNPACED = 104,        /* a client reads after each notice, however many come */
    QN_BUG_LOST_NOTICE_UNREAD = 105,  /* a client does not read while no notice comes */
    QN_BUG_NOTICE_FOR_ALL = 106,      /* a notice wakes all threads that wait on the client */
    QN_BUG_LATE_UNREPORTED = 107, /* SQLite: a task archived past its deadline is not reported */
    QN_BUG_LONG_QUEUE_CUT = 108,  /* a client cuts long names of queues where it waits */
    /* Leases, clocks, cancellations */
    QN_BUG_DELAY_ON_WALL = 46,     /* SQLite: delays end by the wall clock */
    QN_BUG_DATED_IS_DUE = 47,      /* SQLite: every task dated as due is due, even if its date came
                                    * from a wrong clock */
    QN_BUG_HEARTBEAT_ON_WALL = 48, /* SQLite: the age of a heartbeat goes by the wall clock */
    QN_BUG_LIFE_UNTIL_SEEN = 49,   /* a run counts as alive until its death was detected */
    QN_BUG_EXTENDED_LATE = 45,     /* leases are extended only when they have expired */
    QN_BUG_LEASE_END_IGNORED = 43, /* a run whose lease is over by our clock is started */
    QN_BUG_FIRST_CANCEL_WINS =
        44, /* an operator's request for the archive is ignored after another one */
    /* Untrusted data */
    QN_BUG_SCHEMA_TRUSTED = 51, /* a file is opened without a check of its tables */
    QN_BUG_TRIGGERS_RUN = 52,   /* triggers that others put into a file run */
    QN_BUG_PLACE_TRUSTED = 53,  /* a file that others could change is opened */
    QN_BUG_MARKS_IN_NAMES = 54, /* a new name may turn the direction of text */
    /* A worker's report about itself */
    QN_BUG_STUCK_UNNOTICED = 61, /* a worker without a slot continues as if nothing had happened */
    QN_BUG_LOG_UNESCAPED = 62,   /* values of a log line are written as they are */
    /* Beside Go */
    QN_BUG_UNKNOWN_COUNTED = 71,    /* a task of an unknown type fails instead of being left */
    QN_BUG_DUE_LEFT_BEHIND = 72,    /* an enqueue clears nothing of the index of due moments */
    QN_BUG_UNUSABLE_AS_IT_IS = 73,  /* an unreadable message is archived in a form that no program
                                     * can read */
    QN_BUG_LOCK_OF_GO_REMOVED = 74, /* doctor removes locks that end by themselves */
    /* Dead workers on Redis */
    QN_BUG_PAGE_NOT_SOUGHT = 75,   /* a page begins where it would if no run had ended */
    QN_BUG_FORGOTTEN_AT_ONCE = 76, /* the record of a dead worker goes with its last lease */
    QN_BUG_LOCK_UNKNOWN_KEPT = 77, /* a solo lock is kept although its owner never received it */
    QN_BUG_LOCK_OF_GONE_KEPT = 78, /* the same where its owner has no record any more */
    /* Limits of waiting, order */
    QN_BUG_EXPIRED_RUNS = 121,           /* a task that has not started in time is run */
    QN_BUG_STARTED_EXPIRES = 122,        /* a task expires even if it has started once */
    QN_BUG_MAX_PENDING_OFF_BY_ONE = 123, /* a queue takes one task more than its limit */
    QN_BUG_PRIORITY_LOST = 124,          /* SQLite: a task that becomes due loses its priority */
    QN_BUG_TERMS_UNNOTED = 125,          /* SQLite: leases never look at the terms of tasks */
    /* Cron expressions and time zones */
    QN_BUG_STAR_IGNORED = 91,      /* days are those of either field, even if one is a star */
    QN_BUG_ZONE_RULE_IGNORED = 92, /* the last offset of a zone's table holds for ever */
    QN_BUG_ZONE_PATH_TRUSTED = 93, /* the name of a zone may lead out of its folder */
    QN_BUG_SKIPPED_DAY_STAYS = 94, /* the search does not get past a day that a zone skips */
    /* Groups */
    QN_BUG_SET_UNFENCED = 141,     /* a set whose lease is lost is finished all the same */
    QN_BUG_SET_WITHOUT_TASK = 142, /* a set is removed without storing what was made of it */
    QN_BUG_GROUP_NAME_LOST = 143,  /* Redis: a set given back does not list its group again */
    QN_BUG_GROUP_NOT_RESTED = 144, /* a group whose aggregator failed is aggregated again at once */
    QN_BUG_SET_NOT_EXTENDED =
        145,                     /* the lease of a set is not extended while its aggregator runs */
    QN_BUG_GROUP_UNLISTED = 146, /* Redis: a group leaves the list although a set of it is out */
    /* Checkpoints */
    QN_BUG_MOVED_WITHOUT_LANE = 240, /* SQLite: a task that moves after a first one with a key */
    QN_BUG_GIVEN_BACK_STAYS = 241,   /* a given-back task has its checkpoint but for the queue */
    QN_BUG_FENCE_LEFT_BEHIND = 242,  /* Redis: a moved task may get a smaller fence */
    QN_BUG_STALE_RUN_MOVES = 243,    /* SQLite: a run that has lost its lease moves its task */
    QN_BUG_STALE_RUN_CHANGES = 221,  /* a run that has lost its lease changes its task */
    QN_BUG_CPU_UNWATCHED = 270,      /* no pool ends an item that ignores SIGXCPU */
    QN_BUG_CPU_OF_LIFE = 271,        /* a child has the CPU limit of its item for all its items */
    QN_BUG_CGROUP_IGNORED = 272,     /* children and commands stay in the cgroup of the worker */
    QN_BUG_LOCK_LEFT_BEHIND = 222,   /* a task goes to another queue without its lock */
    QN_BUG_OLD_QUEUE_KEEPS_IT = 223, /* Redis: a task that goes is still in the queue it leaves */
    QN_BUG_CHANGE_FORGOTTEN = 224,   /* Redis: a spent task is archived without its checkpoint */
    /* Early acks, prefork children */
    QN_BUG_UNACKED_RUNS = 250, /* a run starts although its early ack was not confirmed */
    QN_BUG_ACKED_AGAIN = 251,  /* a run whose child died in its handler goes to another child */
    QN_BUG_ACKED_AHEAD = 252,  /* early acks are written for more runs than there are children */
    /* Unique tasks */
    QN_BUG_LOCK_NOT_RENEWED = 151,   /* the lock of a task that lives on ends with its first time */
    QN_BUG_ACTIVE_REPLACED = 152,    /* new data go into a task that is already running */
    QN_BUG_STARTED_KEEPS_LOCK = 153, /* a task that is unique until it starts keeps its lock */
    /* Limits */
    QN_BUG_LIMIT_OFF_BY_ONE = 161,     /* one more runs than a limit allows */
    QN_BUG_LIMIT_SHARE_LOST = 162,     /* the place of a dead worker's run is not returned */
    QN_BUG_TURN_NOT_PASSED_ON = 163,   /* the keys of a queue take turns from the first one on */
    QN_BUG_START_NOT_RETURNED = 164,   /* Redis: a run given back unstarted counts as a start */
    QN_BUG_END_NOT_AWAITED = 165,      /* Redis: no end of a run wakes who waits for its place */
    QN_BUG_NEW_QUEUE_UNBOUND = 171,    /* limits of all queues bind only those made before */
    QN_BUG_ALL_COUNTED_APART = 172,    /* one lease counts the runs of each queue by themselves */
    QN_BUG_TOKEN_NOT_RETURNED = 173,   /* Redis: a run that has ended keeps its token */
    QN_BUG_TOKEN_NOT_EXTENDED = 174,   /* Redis: a token ends with the first lease of its run */
    QN_BUG_TOKENS_COUNTED_APART = 175, /* in one lease each queue gets all tokens that are free */
    QN_BUG_OTHERS_NOT_COUNTED = 176,   /* Redis: a key of all queues is counted in the first */
    QN_BUG_OTHERS_END_NOT_AWAITED =
        177, /* Redis: an end in another queue does not wake who waits for a type or key */
    QN_BUG_HOLDER_END_UNNOTICED = 178, /* the end of a run that held a token wakes no worker */
    QN_BUG_LANE_LIMIT_OFF_BY_ONE =
        166,                      /* Redis: one more runs than a limit by type or key allows */
    QN_BUG_LANE_BELIEVED = 167,   /* Redis: a task that Go took from its lane is leased there */
    QN_BUG_ENDED_RUN_HOLDS = 168, /* Redis: a run that Go ended keeps its place */
    QN_BUG_ASIDE_FOR_EVER =
        169, /* Redis: a task whose lane was lost is put ahead again and again */
    QN_BUG_ACTIVE_NOT_SORTED = 181, /* SQLite: a new limit does not count what runs already */
    QN_BUG_ASIDE_RENEWED_LATE =
        188, /* Redis: Go's forwarder may get a task that waits aside before ours renews it */
    QN_BUG_DOCTOR_LANE_BELIEVED =
        187, /* Redis: doctor takes an entry of a lane for a task that waits there */
    QN_BUG_WINDOW_TOO_SHORT = 134, /* a start is forgotten before its window is over */
    /* Schedules */
    QN_BUG_TICK_AGAIN = 191,          /* a tick is enqueued without comparing the last one */
    QN_BUG_EPOCH_IGNORED = 192,       /* a scheduler that no longer leads goes on enqueueing */
    QN_BUG_TICK_WITHOUT_TASK = 193,   /* an entry is advanced without its task */
    QN_BUG_MISFIRE_TOO_MANY = 131,    /* one missed tick more than the policy allows is sent */
    QN_BUG_PAUSE_IGNORED = 132,       /* a paused entry is planned like any other */
    QN_BUG_NIGHT_NOT_CALM = 133,      /* a search may begin in a night in which clocks change */
    QN_BUG_PAST_IS_FAILURE = 194,     /* a tick that another scheduler has sent is tried again */
    QN_BUG_LAPSED_LEADER_SENDS = 195, /* ticks are sent although the lease may be over */
    QN_BUG_EPOCH_STAYS_LOW = 197,     /* Redis: a leader whom all queues refuse keeps its epoch */
    QN_BUG_TICK_POLICY_IGNORED = 198, /* what its lock left out of a tick counts as replaced */
    QN_BUG_VETO_IGNORED = 196,        /* a tick that a hook has refused is enqueued */
    /* Children */
    QN_BUG_STALL_UNNOTICED = 290,      /* a worker that cannot fetch looks healthy */
    QN_BUG_OLD_ZYGOTE_ENDS_POOL = 230, /* an older zygote that dies counts as the newest one */
    /* The link */
    QN_BUG_REPLICA_IS_MASTER = 350,    /* a replica is accepted as a master */
    QN_BUG_KEPT_OUTCOME_DROPPED = 351, /* outcomes that could not be sent are forgotten */
    QN_BUG_NO_PAUSE = 352,             /* no pause when all servers have failed */
    QN_BUG_REFUSAL_UNNOTICED = 354,    /* a worker whose login is refused looks healthy */
    QN_BUG_LEAVING_MASTER_USED = 355,  /* a master that sentinels are replacing is used */
    QN_BUG_SENTINEL_KEPT = 356,        /* sentinels that are gone are asked for ever */
    QN_BUG_UNHEARD_IS_ARMED = 357,     /* a node without a listener of ours counts as armed */
    QN_BUG_DOUBT_FORGOTTEN = 358,      /* a task that was sent and not answered is not stored */
    QN_BUG_UNANSWERED_UNMARKED = 359,  /* outcomes at a silent node count as answered */
    QN_BUG_RECORD_IS_SILENCE = 360,    /* a link on which a record of TLS arrives counts as dead */
    QN_BUG_ROOM_NOT_LEARNT = 361,      /* what is too large for the link is asked for ever */
    QN_BUG_LEFTOVER_NOT_SENT = 362,    /* what a silent node did not answer is not sent again */
    QN_BUG_KEPT_RUNS_STAY = 363,       /* runs that ended meanwhile are not reported afterwards */
    QN_BUG_REASON_UNLOGGED = 364,      /* after a lost connection nothing says why there is none */
    QN_BUG_TWIN_COUNTS = 365,          /* a sentinel that has two names is two of them */
    QN_BUG_LARGE_IS_SILENT = 367,      /* a node whose reply takes half a second is silent */
    QN_BUG_OLD_OWNERS_KEPT = 366,      /* a new map leaves no room while the old one counts */
    /* Operators */
    QN_BUG_SEEN_IGNORED = 370,          /* an edit does not look at what its caller has seen */
    QN_BUG_EDIT_UNCOMPARED = 371,       /* Redis: a message that changed meanwhile is overwritten */
    QN_BUG_MOVED_LOCK_STAYS = 372,      /* a task that an operator moves leaves its lock behind */
    QN_BUG_REFUSED_COUNTED_TWICE = 373, /* a second pass of a move counts what it refused before */
    QN_BUG_BROKEN_HEAD_LOST = 139 /* keys behind a broken head are those of the section before */
};

#ifdef QN_SEEDED_BUGS
struct qn_arena;
int qn_bug_active(enum qn_bug bug);
#define QN_BUG(name) (qn_bug_active(QN_BUG_##name))
/* The text with the lines that the chosen fault changes; NULL when memory is out. */
const char *qn_bug_script(struct qn_arena *arena, const char *text);
#define QN_BUG_SCRIPT(arena, text) qn_bug_script(arena, text)
#else
#define QN_BUG(name) 0
#define QN_BUG_SCRIPT(arena, text) (text)
#endif

#endif
