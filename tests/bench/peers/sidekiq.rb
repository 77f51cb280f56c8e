#!/usr/bin/ruby
# SPDX-License-Identifier: MIT
# The driver of Sidekiq; see README.md for its commands. A worker is Sidekiq's own program, which
# loads this file.
require "sidekiq"

CONCURRENCY = ENV.fetch("BENCH_CONCURRENCY", "10")
BULK = 1000
PAYLOAD = 100
URL = "redis://#{ENV["BENCH_HOST"]}:#{ENV["BENCH_PORT"]}/0"
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server { |config| config.redis = { url: URL } }

def monotonic_ns
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

class BenchTask
  include Sidekiq::Worker
  @@lock = Mutex.new
  @@done = 0

  def perform(payload)
    if ENV["BENCH_COUNT"]
      @@lock.synchronize do
        @@done += 1
        if @@done == ENV["BENCH_COUNT"].to_i
          $stdout.puts((monotonic_ns - ENV["BENCH_BEGIN"].to_i) / 1e9)
          $stdout.flush
          exit!(0)
        end
      end
    else
      late = monotonic_ns - payload.to_i
      $stdout.puts(late)
      $stdout.flush
    end
  end
end

# Boots first, so that what is measured is work and not the loading of Ruby.
if defined?(Sidekiq::CLI)
  Sidekiq.configure_server do |config|
    config.on(:startup) do
      ENV["BENCH_BEGIN"] = monotonic_ns.to_s
      unless ENV["BENCH_COUNT"]
        $stdout.puts("ready")
        $stdout.flush
      end
    end
  end
end

def serve
  exec("sidekiq", "-q", "default", "-c", CONCURRENCY, "-r", File.expand_path(__FILE__),
       err: File::NULL)
end

def single(count)
  payload = "x" * PAYLOAD
  Sidekiq.redis(&:ping)
  begin_ns = monotonic_ns
  count.times { BenchTask.perform_async(payload) }
  puts((monotonic_ns - begin_ns) / 1e9)
end

def bulk(count)
  arguments = Array.new(BULK) { ["x" * PAYLOAD] }
  Sidekiq.redis(&:ping)
  begin_ns = monotonic_ns
  (count / BULK).times { Sidekiq::Client.push_bulk("class" => BenchTask, "args" => arguments) }
  puts((monotonic_ns - begin_ns) / 1e9)
end

if $PROGRAM_NAME == __FILE__
  case ARGV[0]
  when "version"
    puts "Sidekiq #{Sidekiq::VERSION}, Ruby #{RUBY_VERSION}, several concurrencies, bulk by push_bulk of #{BULK}"
  when "single" then single(ARGV[1].to_i)
  when "bulk" then bulk(ARGV[1].to_i)
  when "work"
    ENV["BENCH_COUNT"] = ARGV[1]
    serve
  when "echo" then serve
  when "send"
    $stdin.each_line { BenchTask.perform_async(monotonic_ns.to_s.ljust(PAYLOAD)) }
  end
end
