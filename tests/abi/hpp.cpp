/* SPDX-License-Identifier: MIT */
/* hpp.cpp - what quern.hpp promises, over a real file: test_hpp.sh builds it as C++17 and C++20. */
#include <quern/quern.hpp>

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <type_traits>

using namespace std::chrono_literals;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "hpp.cpp:%d: %s\n", __LINE__, #condition);                        \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

template <typename T>
constexpr bool is_move_only =
    std::is_nothrow_move_constructible_v<T> &&std::is_nothrow_move_assignable_v<T> &&
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(is_move_only<quern::client> && is_move_only<quern::inspector>);
static_assert(is_move_only<quern::scheduler>);
static_assert(is_move_only<quern::worker> && is_move_only<quern::task_info>);
static_assert(is_move_only<quern::task_list> && !std::is_copy_constructible_v<quern::mux>);

static quern::task task_of(const char *type, std::string_view payload = "")
{
    quern::task task;
    task.type = type;
    task.payload = payload;
    return task;
}

/* The status that a call throws; QUERN_OK: it does not. */
template <typename Call> static quern_status thrown_by(Call call)
{
    try {
        call();
    } catch (const quern::error &error) {
        CHECK(error.what()[0] != '\0');
        return error.status();
    }
    return QUERN_OK;
}

/* One task that fulfils the search goes and comes back. */
static void use_trash(quern::inspector &inspector, const quern_search &search)
{
    quern_search trash{};
    trash.in_trash = 1;
    CHECK(inspector.count_matching(QUERN_ACTION_DELETE, search).done == 1);
    CHECK(inspector.act_matching(QUERN_ACTION_TRASH, search).done == 1);
    CHECK(inspector.search(trash).size() == 1);
    CHECK(inspector.search(trash)[0].deleted_at_ms() > 0);
    CHECK(inspector.act_matching(QUERN_ACTION_RESTORE, trash).done == 1);
}

/* The task "twice" is edited and moved, by its id and by a query, and deleted. No worker is told
 * anything. */
static void use_edit(quern::inspector &inspector)
{
    quern_search search{};
    search.match = "id = twice";
    quern_task_edit edit{};
    edit.timeout_ms = 1234;
    inspector.edit("", "twice", edit);
    CHECK(inspector.task("", "twice").timeout_ms() == 1234);
    edit.timeout_ms = 4321;
    CHECK(inspector.edit_matching(edit, search).done == 1);
    CHECK(inspector.task("", "twice").timeout_ms() == 4321);
    inspector.move("default", "twice", "other");
    CHECK(inspector.move_matching("default", search).done == 1);
    CHECK(inspector.task("", "twice").queue() == "default");
    inspector.act(QUERN_ACTION_DELETE, "", "twice");
    CHECK(thrown_by([&] {
              inspector.command({"none", QUERN_ORDER_STOP, 0, 0, 0, 0});
          }) == QUERN_E_NOT_FOUND);
}

static void errors_are_thrown_or_returned(const std::string &url)
{
    CHECK(thrown_by([] { quern::client client("localhost:6379"); }) == QUERN_E_INVALID);
    quern_error err{};
    quern::client client(nullptr);
    CHECK(quern::client::open("localhost:6379", {}, client, err) == QUERN_E_INVALID);
    CHECK(err.code == QUERN_E_INVALID && client.get() == nullptr);
    CHECK(client.enqueue(task_of("t"), nullptr, err) == QUERN_E_INVALID);
    CHECK(quern::client::open(url, {}, client, err) == QUERN_OK);
    quern::client moved = std::move(client);
    CHECK(client.get() == nullptr && moved.get() != nullptr);

    quern::task task = task_of("t");
    task.id = "twice";
    task.delay = 1h;
    quern::task_info info = moved.enqueue(task);
    CHECK(info.id() == "twice" && info.queue() == "default" && info.payload().empty());
    CHECK(info.state() == QUERN_TASK_SCHEDULED);
    CHECK(thrown_by([&] { moved.enqueue(task); }) == QUERN_E_CONFLICT);
    std::vector<quern_enqueue_result> results;
    CHECK(moved.enqueue({task_of("a"), task, task_of("")}, results, err) == QUERN_E_CONFLICT);
    CHECK(results.size() == 3 && results[0].status == QUERN_OK &&
          results[1].status == QUERN_E_CONFLICT && results[2].status == QUERN_E_INVALID);

    quern::inspector inspector(url);
    CHECK(thrown_by([&] { inspector.task("", "none"); }) == QUERN_E_NOT_FOUND);
    CHECK(inspector.task("", "twice").type() == "t");
    CHECK(inspector.tasks().size() == 2 && inspector.queues().size() == 1);
    quern::task again = task_of("u");
    again.id = "twice";
    quern::task_info there(nullptr);
    CHECK(moved.enqueue(again, &there, err) == QUERN_E_CONFLICT && there.type() == "t");
    CHECK(moved.find("default", "twice").id() == "twice");
    CHECK(moved.find("other", "twice", there, err) == QUERN_E_NOT_FOUND);
    CHECK(moved.wait("twice", 1ms, there, err) == QUERN_E_TIMEOUT);
    quern::task_info stored = inspector.task_short("default", "twice");
    CHECK(stored.id() == "twice" && stored.group().empty() && stored.progress() == -1);
    CHECK(stored.enqueued_at_ms() > 0 && stored.archived_at_ms() == 0 && !stored.orphaned());
    CHECK(stored.retry_max() == 25 && stored.crash_count() == 0);
    CHECK(stored.cause() == QUERN_CAUSE_NONE);
    const std::string beginning = std::string(results[0].id).substr(0, 20);
    CHECK(inspector.task_short("", beginning).id() == results[0].id);
    use_edit(inspector);
    CHECK(thrown_by([&] { inspector.task_short("", "none"); }) == QUERN_E_NOT_FOUND);
    inspector.backup(std::string(url) + ".copy");
    CHECK(thrown_by([&] { inspector.reload_certificates(); }) == QUERN_E_UNSUPPORTED);
    CHECK(thrown_by([&] { moved.reload_certificates(); }) == QUERN_E_UNSUPPORTED);
    CHECK(quern::inspector(std::string(url) + ".copy").tasks().size() == 1);
    quern_task_filter pending{};
    CHECK(thrown_by([&] { inspector.act_all(QUERN_ACTION_DELETE, pending); }) == QUERN_E_INVALID);
    pending.queue = "default";
    pending.state = QUERN_TASK_PENDING;
    quern_search search{};
    search.match = "type = a and state = pending";
    CHECK(quern_task_list_cursor(inspector.search(search).get()) == nullptr);
    use_trash(inspector, search);
    search.match = "type";
    CHECK(thrown_by([&] { inspector.act_matching(QUERN_ACTION_DELETE, search); }) ==
          QUERN_E_INVALID);
    CHECK(inspector.act_all(QUERN_ACTION_DELETE, pending) == 1);
    CHECK(inspector.tasks().size() == 0 && inspector.workers().size() == 0);

    quern::mux mux;
    mux.handle("t", [] {});
    CHECK(mux.handle(
              "t", [] {}, {}, err) == QUERN_E_CONFLICT);
    quern::worker worker(nullptr);
    CHECK(worker.run(err) == QUERN_E_INVALID && worker.run_until_signal(err) == QUERN_E_INVALID);
    CHECK(quern::worker::open("redis//x", std::move(mux), {}, worker, err) == QUERN_E_INVALID);
}

static void metrics_are_texts(const std::string &url)
{
    quern::inspector inspector(url);
    CHECK(quern::metrics(inspector).find("asynq_queue_size{queue=\"default\"}") !=
          std::string::npos);
    quern_metrics_options wrong{};
    wrong.format = 7;
    CHECK(thrown_by([&] { quern::metrics(inspector, wrong); }) == QUERN_E_INVALID);
}

static void a_copied_task_keeps_headers_and_policy(const std::string &url)
{
    quern::client client(url);
    quern::inspector inspector(url);
    quern::task task = task_of("copied");
    task.delay = 1h;
    CHECK(client.enqueue(task).headers().empty());
    task.headers = {{"lang", "de"}, {"empty", ""}};
    task.retry = QUERN_BACKOFF_EXPONENTIAL(500, 9000);
    const quern::task_info first = client.enqueue(task);
    CHECK(first.headers() == task.headers);

    quern::task copy = task_of("copied");
    copy.delay = 1h;
    copy.headers = first.headers();
    copy.retry = first.retry();
    const std::string id(client.enqueue(copy).id());
    const quern::task_info second = inspector.task("", id);
    CHECK(id != first.id() && second.headers() == task.headers);
    CHECK(second.retry().kind == task.retry.kind && second.retry().base_ms == 500);
    CHECK(second.retry().cap_ms == 9000);
    quern_task_filter scheduled{};
    scheduled.queue = "default";
    scheduled.state = QUERN_TASK_SCHEDULED;
    CHECK(inspector.act_all(QUERN_ACTION_DELETE, scheduled) == 3);
}

static void exceptions_become_retries(const std::string &url)
{
    quern::client client(url);
    for (const char *type : {"throws", "throws:int", "outer"}) {
        quern::task task = task_of(type);
        task.retry_max = quern::retry_never;
        client.enqueue(task);
    }
    quern::mux mux;
    mux.use([](quern::run &, const quern::task_view &task, const quern::next &next) {
        if (task.type() == "outer") {
            throw std::runtime_error("of a middleware");
        }
        return next();
    });
    mux.handle("throws", [] { throw std::runtime_error("100 % what()"); });
    mux.handle("throws:int", [] { throw 7; });
    mux.handle("outer", [] {});
    quern::worker_options options;
    options.drain = true;
    options.on_log = [](quern_log_level, std::string_view) { throw 7; };
    options.on_run = [](const quern_run_report &) { throw std::runtime_error("lost"); };
    quern::worker worker(url, std::move(mux), std::move(options));
    worker.run();
    CHECK(worker.stats().archived == 3);
    quern_task_filter filter{};
    filter.state = QUERN_TASK_ARCHIVED;
    quern::inspector inspector(url);
    quern::task_list archived = inspector.tasks(filter);
    CHECK(archived.size() == 3);
    for (const quern::task_info_view &task : archived) {
        CHECK(task.error() == (task.type() == "throws" ? "100 % what()"
                               : task.type() == "outer"
                                   ? "of a middleware"
                                   : "an exception that is no std::exception"));
    }
}

static void checkpoints_reach_the_next_run(const std::string &url)
{
    quern::client client(url);
    quern::task task = task_of("walk", "first");
    task.kill_after = 5s;
    task.cpu = 90s;
    task.retention = 1h;
    const quern::task_info stored = client.enqueue(task);
    CHECK(stored.kill_after_ms() == 5000 && stored.cpu_ms() == 90000);
    std::string id(stored.id());
    quern::mux mux;
    mux.handle("walk", [](quern::run &run, const quern::task_view &walk) {
        if (walk.payload() == "first") {
            run.change_payload("");
            run.change_payload(std::string_view("a\0b", 3));
            run.change_queue("other");
            run.change_retry_max(2);
            CHECK(thrown_by([&] { run.change_queue(""); }) == QUERN_E_INVALID);
            CHECK(thrown_by([&] { run.change_retry_max(-7); }) == QUERN_E_INVALID);
            run.change_queue("other");
            return run.again_at(std::chrono::system_clock::now());
        }
        CHECK(run.queue() == "other" && walk.payload() == std::string_view("a\0b", 3));
        run.change_payload({}); /* is not written: it is done */
        return quern::outcome::done;
    });
    quern::worker_options options;
    options.queues = {{"default", 1}, {"other", 1}};
    options.drain = true;
    quern::worker worker(url, std::move(mux), std::move(options));
    worker.run();
    quern::inspector inspector(url);
    const quern::task_info done = inspector.task("other", id);
    CHECK(done.state() == QUERN_TASK_COMPLETED && done.payload() == std::string_view("a\0b", 3));
    CHECK(done.retry_max() == 2 && done.cpu_ms() == 90000);
}

static void lambdas_keep_what_they_capture(const std::string &url)
{
    quern::client client(url);
    quern::task task = task_of("kept", std::string_view("a\0b", 3));
    task.headers = {{"lang", "de"}};
    task.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    task.tracestate = "a=b";
    task.retention = task.start_within = 1h;
    task.priority = url.find("redis") == std::string::npos ? 7 : 0;
    const quern::task_info stored = client.enqueue(task);
    /* The client has read the clock for it, the broker for the other. */
    const std::int64_t apart_ms = stored.start_by_at_ms() - stored.enqueued_at_ms() - 3600000;
    CHECK(apart_ms > -60000 && apart_ms < 60000 && stored.priority() == task.priority);
    std::string id(stored.id());
    std::string log;
    quern::worker worker(nullptr);
    {
        auto seen = std::make_shared<std::string>("seen: "); /* lives in the lambda alone */
        quern::mux mux;
        auto own = std::make_unique<int>(1); /* of a lambda that can only be moved */
        mux.use([own = std::make_unique<int>(1)](quern::run &, const quern::task_view &,
                                                 const quern::next &next) {
            CHECK(*own == 1);
            return next();
        });
        mux.handle(
            "kept", [seen, own = std::move(own)](quern::run &run, const quern::task_view &kept) {
                CHECK(*own == 1 && kept.header("lang") == "de" && kept.header("none").empty());
                CHECK(kept.payload().size() == 3 && !run.cancelled() && run.fence() > 0);
                CHECK(run.write_progress(50, "half") == QUERN_OK);
                CHECK(!run.task_id().empty() && run.queue() == "default" && run.crash_count() == 0);
                CHECK(run.cause() == QUERN_CAUSE_NONE && run.cancel_fd() >= 0 &&
                      run.traceparent().size() == 55 && run.tracestate() == "a=b");
                run.write_result(*seen + std::string(kept.payload()));
                return quern::outcome::done;
            });
        quern::worker_options options;
        options.queues = {{"default", 2}, {"other", 1}};
        options.on_run = [&log, &worker](const quern_run_report &report) {
            log += report.type;
            worker.stop();
        };
        quern_error err{};
        CHECK(quern::worker::open(url, std::move(mux), std::move(options), worker, err) ==
              QUERN_OK);
    }
    std::thread thread([&worker] { worker.run(); });
    thread.join();
    CHECK(log == "kept");
    quern::inspector inspector(url);
    CHECK(inspector.task("default", id).result() == std::string("seen: a\0b", 9));
}

static void schedulers_have_callbacks_and_stop(const std::string &url)
{
    int ticks = 0;
    quern::scheduler *steered = nullptr;
    quern::scheduler_options options;
    options.program = "hpp";
    options.on_entries = [](quern::entry_set &set) {
        quern::entry entry;
        entry.name = "second";
        entry.cron = "* * * * * *";
        set.add(entry, task_of("t", "before"));
    };
    options.before = [](const quern_tick &tick, quern_task &task) {
        CHECK(std::string(tick.name) == "second" && task.payload_size == 6);
        task.payload = "after";
        task.payload_size = 5;
        return true;
    };
    options.after = [&](const quern_tick &) {
        ticks++;
        steered->stop();
    };
    quern::scheduler scheduler(url, options);
    quern::scheduler moved = std::move(scheduler);
    CHECK(scheduler.get() == nullptr && moved.get() != nullptr && !moved.is_ready());
    steered = &moved;
    quern::entry wrong;
    wrong.name = "wrong";
    wrong.cron = "*";
    CHECK(thrown_by([&] { moved.add(wrong, task_of("t")); }) == QUERN_E_INVALID);
    CHECK(thrown_by([&] { moved.remove("", "none"); }) == QUERN_E_NOT_FOUND);
    moved.run();
    CHECK(ticks == 1);
    std::string listed;
    quern_error err{};
    auto note = [&](const quern_entry_info &info) {
        listed += info.name;
        return true;
    };
    moved.list(note);
    CHECK(moved.list(note, err) == QUERN_OK && listed == "secondsecond");
    CHECK(thrown_by([&] {
              moved.list([](const quern_entry_info &) -> bool {
                  throw quern::error(quern_error{QUERN_E_STATE, "enough"});
              });
          }) == QUERN_E_STATE);
    CHECK(thrown_by([] { quern::scheduler none("localhost:6379"); }) == QUERN_E_INVALID);
}

static void a_lambda_aggregates_a_group(const std::string &url)
{
    quern::client client(url);
    std::string log;
    quern::mux mux;
    mux.aggregate(
        "sums:",
        [own = std::make_unique<int>(1), &log](quern::aggregation &aggregation) {
            CHECK(*own == 1 && aggregation.queue() == "groups" && !aggregation.cancelled());
            CHECK(aggregation.group() == "sums:x" && aggregation.size() == 2);
            if (log.empty()) {
                log = "thrown ";
                throw std::runtime_error("the first call");
            }
            quern::task sum = task_of("sum");
            std::string both =
                std::string(aggregation[0].payload()) + std::string(aggregation[1].payload());
            sum.payload = both;
            aggregation.store(sum);
            CHECK(thrown_by([&] { aggregation.store(sum); }) == QUERN_E_STATE);
            return quern::outcome::done;
        },
        quern_group_options{0, 0, 2, 0});
    mux.handle("sum", [&log](const quern::task_view &task) { log += task.payload(); });
    for (const char *payload : {"a", "b"}) {
        quern::task member = task_of("member", payload);
        member.queue = "groups";
        member.group = "sums:x";
        client.enqueue(member);
    }
    quern::worker_options options;
    options.queues = {{"groups", 1}};
    options.drain = true;
    quern::worker worker(url, std::move(mux), std::move(options));
    worker.run();
    CHECK(log == "thrown ab");
}

static quern::mux mux_for_children(const char *pattern)
{
    quern::mux mux;
    mux.handle(pattern, [](quern::run &run, const quern::task_view &) {
        run.write_result(std::to_string(getpid()));
    });
    return mux;
}

/* First, since a zygote is forked before there are threads. */
static void children_run_handlers(const std::string &url)
{
    quern::mux mux = mux_for_children("child");
    quern::worker_options options;
    options.zygote = std::make_shared<quern::zygote>(mux);
    CHECK(!options.zygote->is_program() && options.zygote->mux() == nullptr);
    CHECK(thrown_by([&] { options.zygote->add_command("t", "true"); }) == QUERN_E_INVALID);
    options.drain = true;
    quern::client client(url);
    quern::task task = task_of("child");
    task.retention = 1min;
    std::string id(client.enqueue(task).id());
    quern::worker worker(url, std::move(mux), options);
    worker.run();
    quern::inspector inspector(url);
    std::string pid(inspector.task("default", id).result());
    CHECK(!pid.empty() && pid != std::to_string(getpid()));
}

static void zygotes_are_executed_and_replaced(const std::string &url)
{
    const char *self = "/proc/self/exe";
    quern::zygote first = quern::zygote::exec(self, {"serve", "child"});
    quern::zygote second = quern::zygote::exec(self, {"serve", "child"});
    quern::zygote other = quern::zygote::exec(self, {"serve", "other"});
    CHECK(thrown_by([&] { quern::zygote::exec("/bin/true"); }) != QUERN_OK);
    CHECK(first.is_program() && first.mux() != nullptr);
    CHECK(thrown_by([&] { first.add_command("child", "true"); }) == QUERN_E_CONFLICT);
    first.add_command("command", "true");
    std::atomic<int> runs{0};
    quern::worker worker(nullptr);
    quern::worker_options options;
    options.zygote = std::make_shared<quern::zygote>(std::move(first));
    options.on_run = [&](const quern_run_report &report) {
        CHECK(report.outcome == QUERN_DONE);
        runs++;
    };
    quern_error err{};
    CHECK(quern::worker::open(url, quern::mux(), options, worker, err) == QUERN_OK);
    CHECK(thrown_by([&] { worker.reload(second); }) == QUERN_E_STATE);
    CHECK(thrown_by([&] { worker.set_weights({{"other", 3, 0}}); }) == QUERN_E_INVALID);
    quern::client client(url);
    std::thread thread([&worker] { worker.run(); });
    auto run_one = [&](const char *type) {
        int before = runs;
        client.enqueue(task_of(type));
        while (runs == before) {
            std::this_thread::sleep_for(1ms);
        }
    };
    run_one("child");
    run_one("command");
    CHECK(thrown_by([&] { worker.reload(other); }) == QUERN_E_INVALID);
    worker.log_runs();
    CHECK(quern::metrics(worker).find("quern_worker_slots") != std::string::npos);
    worker.reload(second);
    CHECK(worker.reload(second, err) == QUERN_E_STATE);
    run_one("child");
    worker.stop();
    thread.join();
}

int main(int argc, char **argv)
{
    if (argc == 3 && argv[1] == std::string("serve")) {
        quern::zygote::serve(mux_for_children(argv[2]));
        return 0;
    }
    CHECK(argc == 2);
    children_run_handlers(std::string(argv[1]) + ".children");
    errors_are_thrown_or_returned(argv[1]);
    metrics_are_texts(argv[1]);
    a_copied_task_keeps_headers_and_policy(argv[1]);
    exceptions_become_retries(argv[1]);
    checkpoints_reach_the_next_run(argv[1]);
    lambdas_keep_what_they_capture(argv[1]);
    schedulers_have_callbacks_and_stop(argv[1]);
    a_lambda_aggregates_a_group(argv[1]);
    zygotes_are_executed_and_replaced(argv[1]);
    return 0;
}
