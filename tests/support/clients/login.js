// Logs in with kafkajs by each of the given mechanisms, produces a record and reads it.
"use strict";

const { Kafka, logLevel } = require("kafkajs");
const fs = require("fs");

const options = JSON.parse(process.argv[2]);

function client(sasl) {
  return new Kafka({
    brokers: [options.bootstrap],
    logLevel: logLevel.NOTHING,
    ssl: { ca: [fs.readFileSync(options.ca, "utf-8")] },
    sasl,
    retry: { retries: 5, initialRetryTime: 100 },
  });
}

async function roundTrip(sasl) {
  const kafka = client(sasl);
  const value = `kafkajs ${sasl.mechanism} ${process.pid}`;
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: options.topic, messages: [{ value }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: value, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topic: options.topic, fromBeginning: true });
  await new Promise((resolve) =>
    consumer.run({
      eachMessage: async ({ message }) => {
        if (message.value.toString() === value) resolve();
      },
    })
  );
  await consumer.disconnect();
}

async function main() {
  const wrong = { ...options.logins[0], password: "not-it" }; // before kafkajs adds to the object
  await Promise.all(options.logins.map(roundTrip));
  const admin = client(wrong).admin();
  const error = await admin.connect().then(() => admin.listTopics()).catch((error) => error);
  console.log(JSON.stringify({ done: options.logins.length, refused: error.name || error }));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  }
);
