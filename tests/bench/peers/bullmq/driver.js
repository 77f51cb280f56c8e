// SPDX-License-Identifier: MIT
// The driver of BullMQ; see ../README.md for its commands.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { Queue, Worker } from "bullmq";

const QUEUE = "bench";
const CONCURRENCY = Number(process.env.BENCH_CONCURRENCY ?? 50);
const BULK = 1000;
const PAYLOAD = 100;
const connection = { host: process.env.BENCH_HOST, port: Number(process.env.BENCH_PORT), maxRetriesPerRequest: null };
const options = { removeOnComplete: true, removeOnFail: true };

function seconds(begin) {
  return Number(process.hrtime.bigint() - begin) / 1e9;
}

async function single(count) {
  const queue = new Queue(QUEUE, { connection });
  const data = { p: "x".repeat(PAYLOAD) };
  await queue.waitUntilReady();
  const begin = process.hrtime.bigint();
  for (let i = 0; i < count; i++) await queue.add("bench", data, options);
  console.log(seconds(begin));
  await queue.close();
}

async function bulk(count) {
  const queue = new Queue(QUEUE, { connection });
  const tasks = Array.from({ length: BULK }, () => ({ name: "bench", data: { p: "x".repeat(PAYLOAD) }, opts: options }));
  await queue.waitUntilReady();
  const begin = process.hrtime.bigint();
  for (let left = count; left > 0; left -= BULK) await queue.addBulk(left < BULK ? tasks.slice(0, left) : tasks);
  console.log(seconds(begin));
  await queue.close();
}

async function work(count) {
  let done = 0;
  const begin = process.hrtime.bigint();
  await new Promise((resolve) => {
    const worker = new Worker(QUEUE, async () => {
      if (++done === count) {
        console.log(seconds(begin));
        resolve(worker);
      }
    }, { connection, concurrency: CONCURRENCY });
  });
  process.exit(0);
}

async function echo() {
  const worker = new Worker(QUEUE, async (job) => {
    console.log(String(process.hrtime.bigint() - BigInt(job.data.p.trimEnd())));
  }, { connection, concurrency: CONCURRENCY });
  await worker.waitUntilReady();
  console.log("ready");
}

async function send() {
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  for await (const _ of createInterface({ input: process.stdin })) {
    await queue.add("bench", { p: String(process.hrtime.bigint()).padEnd(PAYLOAD) }, options);
  }
  await queue.close();
}

function version() {
  const own = createRequire(import.meta.url)("./node_modules/bullmq/package.json");
  console.log(`BullMQ ${own.version}, Node ${process.version}, several concurrencies, bulk by addBulk of ${BULK}`);
}

const commands = { version, single, bulk, work, echo, send };
await commands[process.argv[2]](Number(process.argv[3]));
