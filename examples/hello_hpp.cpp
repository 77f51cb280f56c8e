/* SPDX-License-Identifier: MIT */
/* hello_hpp.cpp - quern.hpp: one task, enqueued and run by the same program.
 *
 * Objects free themselves, a handler is a lambda that captures what it needs, and a call that fails
 * throws. Usage: hello_hpp [BROKER]. */
#include <quern/quern.hpp>

#include <cstdio>
#include <string>

int main(int argc, char **argv)
{
    const std::string url = argc > 1 ? argv[1] : "hello_hpp.db";
    try {
        quern::client client(url);
        quern::task task;
        task.type = "hello";
        task.payload = "C++";
        client.enqueue(task);

        std::string greeting;
        quern::mux mux;
        mux.handle("hello", [&](const quern::task_view &hello) {
            greeting = "hello, " + std::string(hello.payload());
        });
        quern::worker_options options;
        options.drain = true; /* stop when the queue is empty */
        quern::worker worker(url, std::move(mux), options);
        worker.run();
        std::printf("%s\n", greeting.c_str());
    } catch (const quern::error &error) {
        std::fprintf(stderr, "hello_hpp: %s (%s)\n", error.what(),
                     quern_status_name(error.status()));
        return 1;
    }
    return 0;
}
