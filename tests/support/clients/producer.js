// kafkajs produces one record, and tries again until it is acknowledged.
"use strict";

const { Kafka, logLevel } = require("kafkajs");

const options = JSON.parse(process.argv[2]);
const kafka = new Kafka({
  brokers: options.bootstrap.split(","),
  logLevel: logLevel.NOTHING,
  requestTimeout: 1000,
  connectionTimeout: 1000,
  retry: { retries: 40, initialRetryTime: 50, maxRetryTime: 200 },
});

async function main() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  await producer.send({ topic: options.topic, acks: -1, messages: [{ value: options.value }] });
  await producer.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
