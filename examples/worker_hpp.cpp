/* SPDX-License-Identifier: MIT */
/* worker_hpp.cpp - quern.hpp: handlers that fail. An exception is a retry with what() as its text,
 * a middleware logs each outcome, and an inspector lists the archived tasks.
 *
 * Usage: worker_hpp [BROKER]. */
#include <quern/quern.hpp>

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

namespace
{

void enqueue(const std::string &url)
{
    quern::client client(url);
    quern::task flaky;
    flaky.type = "flaky";
    flaky.retry_max = 3;
    client.enqueue(flaky);
    quern::task wrong;
    wrong.type = "wrong";
    wrong.payload = "no number";
    client.enqueue(wrong);
}

void work(const std::string &url)
{
    int attempts = 0;
    std::atomic<int> runs{0};
    quern::mux mux;
    mux.use([&](quern::run &, const quern::task_view &, const quern::next &next) {
        runs++;
        return next();
    });
    mux.handle("flaky", [&attempts](quern::run &run) {
        attempts++;
        if (attempts == 1) {
            run.again_in(10ms); /* for the retry, in place of the policy */
            throw std::runtime_error("the first attempt fails");
        }
        std::printf("flaky: done at attempt %d\n", attempts);
    });
    mux.handle("wrong", [](quern::run &run, const quern::task_view &task) {
        return run.fail(quern::outcome::archive, "not understood: " + std::string(task.payload()));
    });
    quern::worker_options options;
    options.drain = true;
    options.on_log = [](quern_log_level, std::string_view) {}; /* keep the warnings quiet */
    quern::worker worker(url, std::move(mux), std::move(options));
    worker.run();
    std::printf("runs: %d\n", runs.load());
}

void show_archive(const std::string &url)
{
    quern::inspector inspector(url);
    quern_task_filter filter{};
    filter.state = QUERN_TASK_ARCHIVED;
    for (const quern::task_info_view &task : inspector.tasks(filter)) {
        std::printf("archived: %s: %s\n", std::string(task.type()).c_str(),
                    std::string(task.error()).c_str());
    }
}

} /* namespace */

int main(int argc, char **argv)
{
    const std::string url = argc > 1 ? argv[1] : "worker_hpp.db";
    try {
        enqueue(url);
        work(url);
        show_archive(url);
    } catch (const quern::error &error) {
        std::fprintf(stderr, "worker_hpp: %s\n", error.what());
        return 1;
    }
    return 0;
}
