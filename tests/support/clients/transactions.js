// kafkajs copies numbers from a topic to another: reads them in a group, writes each batch in a
// transaction with the group's offset, and aborts every second transaction first. Prints what a
// consumer of committed records then reads, and the group's committed offset.
"use strict";

const { Kafka, logLevel } = require("kafkajs");

const options = JSON.parse(process.argv[2]);
const kafka = new Kafka({
  brokers: options.bootstrap.split(","),
  logLevel: logLevel.ERROR,
  retry: { retries: 20, initialRetryTime: 100, maxRetryTime: 1000 },
});

async function read(groupId, topic, count) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100, readUncommitted: false });
  const values = [];
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ message }) => {
        values.push(message.value.toString());
        if (values.length === count) resolve();
      },
    });
  });
  await consumer.disconnect();
  return values;
}

async function main() {
  const { source, target, group, count } = options;
  const admin = kafka.admin();
  await admin.connect();
  const topics = [source, target].map((topic) => ({ topic, replicationFactor: 3 }));
  await admin.createTopics({ topics, waitForLeaders: true });

  const plain = kafka.producer();
  await plain.connect();
  const messages = Array.from({ length: count }, (_, number) => ({ value: String(number) }));
  await plain.send({ topic: source, messages });
  await plain.disconnect();
  const values = await read(group, source, count);

  const producer = kafka.producer({ transactionalId: group, maxInFlightRequests: 1 });
  await producer.connect();
  const half = count / 2;
  for (const first of [0, half]) {
    for (const commits of [false, true]) {
      const transaction = await producer.transaction();
      const copied = values.slice(first, first + half).map((value) => ({ value }));
      await transaction.send({ topic: target, messages: copied });
      const partitions = [{ partition: 0, offset: String(first + half) }];
      await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic: source, partitions }] });
      await (commits ? transaction.commit() : transaction.abort());
    }
  }
  await producer.disconnect();
  const copied = await read(`${group}-reader`, target, count);
  const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [source] });
  console.log(JSON.stringify({ copied, offset: partitions[0].offset }));
  await admin.disconnect();
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  }
);
