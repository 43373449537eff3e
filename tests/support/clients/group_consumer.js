// A consumer process in a group, of kafkajs: prints what it gets, and commits. As group_consumer.py.
"use strict";

const { Kafka, logLevel } = require("kafkajs");

const options = JSON.parse(process.argv[2]);
const tell = (facts) => process.stdout.write(JSON.stringify(facts) + "\n");

async function main() {
  const kafka = new Kafka({
    brokers: options.bootstrap.split(","),
    logLevel: logLevel.ERROR,
    retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 1000 },
  });
  const consumer = kafka.consumer({
    groupId: options.group,
    sessionTimeout: options.session_ms || 6000,
    rebalanceTimeout: 20000,
    heartbeatInterval: 500,
    metadataMaxAge: 2000,
    maxWaitTimeInMs: 300,
  });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    tell({ assigned: (payload.memberAssignment[options.topic] || []).sort((a, b) => a - b) })
  );
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    console.error(payload.error);
    if (!payload.restart) process.exit(1);
  });
  process.on("SIGTERM", async () => {
    await consumer.disconnect();
    process.exit(0);
  });
  await consumer.connect();
  await consumer.subscribe({ topic: options.topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch: { topic, partition, messages } }) => {
      for (const message of messages) {
        tell({ record: [partition, Number(message.offset), message.value.toString()] });
      }
      const next = (BigInt(messages[messages.length - 1].offset) + 1n).toString();
      await consumer.commitOffsets([{ topic, partition, offset: next }]);
    },
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
