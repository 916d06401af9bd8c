// The client program for kafkajs with its codec plug-ins: verbs and answers as in tests/compat/README.md.
'use strict';

const crypto = require('crypto');
const readline = require('readline');
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs');
const LZ4 = require('kafkajs-lz4');

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec;
CompressionCodecs[CompressionTypes.ZSTD] = require('@kafkajs/zstd')();

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};
const PER_SEND = 500;

const client = (request) => new Kafka({ brokers: [request.bootstrap], clientId: 'kafkajs', logLevel: logLevel.NOTHING });
const padded = (number) => String(number).padStart(10, '0');

function hello() {
  const version = (name) => `${name} ${require(`${name}/package.json`).version}`;
  const plugins = ['kafkajs-snappy', 'kafkajs-lz4', '@kafkajs/zstd'].map(version).join(', ');
  return { client: version('kafkajs'), library: `Node.js ${process.version}, ${plugins}` };
}

async function produce(request) {
  const producer = client(request).producer({ idempotent: request.idempotent === '1', allowAutoTopicCreation: false });
  await producer.connect();
  let acked = 0;
  try {
    for (let at = 0; at < Number(request.count); at += PER_SEND) {
      const messages = [];
      for (let n = at; n < Math.min(at + PER_SEND, Number(request.count)); n++) {
        messages.push({
          key: n % 10 === 9 && request.keys !== 'all' ? null : `k${padded(n)}`,
          value: padded(n).repeat(10),
          headers: { client: request.name, n: String(n) },
        });
      }
      const answers = await producer.send({ topic: request.topic, compression: CODECS[request.codec], messages });
      if (answers.every((answer) => answer.errorCode === 0)) acked += messages.length;
    }
  } finally {
    await producer.disconnect();
  }
  return { acked };
}

function sized(data) {
  const head = Buffer.alloc(4);
  head.writeInt32BE(data === null ? -1 : data.length);
  return data === null ? head : Buffer.concat([head, data]);
}

function picture(offset, message) {
  const place = Buffer.alloc(8);
  place.writeBigInt64BE(offset);
  const pairs = [];
  for (const [name, content] of Object.entries(message.headers)) {
    for (const one of Array.isArray(content) ? content : [content]) pairs.push(sized(Buffer.from(name)), sized(one));
  }
  const count = Buffer.alloc(4);
  count.writeInt32BE(pairs.length / 2);
  return Buffer.concat([place, sized(message.key), sized(message.value), count, ...pairs]);
}

async function consume(request) {
  const consumer = client(request).consumer({ groupId: request.group, maxWaitTimeInMs: 500 }); // to leave waits for the last fetch
  const enough = Number(request.enough);
  const lanes = new Map();
  let read = 0;
  await consumer.connect();
  try {
    await consumer.subscribe({ topic: request.topic, fromBeginning: true });
    await new Promise((resolve, reject) => {
      setTimeout(resolve, 90_000).unref();
      consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
      const eachBatch = async ({ batch, resolveOffset }) => {
        if (read >= enough) return;
        for (const message of batch.messages) {
          const offset = BigInt(message.offset);
          const lane = lanes.get(batch.partition) || { first: offset, next: offset, count: 0, digest: crypto.createHash('sha256') };
          lane.digest.update(picture(offset, message));
          lane.next = offset + 1n;
          lane.count += 1;
          lanes.set(batch.partition, lane);
          resolveOffset(message.offset);
          read += 1;
        }
        if (read >= enough) resolve();
      };
      consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch }).catch(reject);
    });
    const places = [...lanes].map(([partition, lane]) => ({ topic: request.topic, partition, offset: String(lane.next) }));
    await consumer.commitOffsets(places);
  } finally {
    await consumer.disconnect();
  }
  const partitions = {};
  for (const [partition, lane] of lanes) {
    partitions[partition] = [Number(lane.first), Number(lane.next), lane.count, lane.digest.digest('hex')];
  }
  return { partitions };
}

async function member(request) {
  const consumer = client(request).consumer({ groupId: request.group, heartbeatInterval: 500, maxWaitTimeInMs: 500 });
  const shares = [];
  const reads = {};
  await consumer.connect();
  try {
    await consumer.subscribe({ topic: request.topic, fromBeginning: true });
    consumer.on(consumer.events.GROUP_JOIN, (event) => shares.push([...(event.payload.memberAssignment[request.topic] || [])].sort()));
    const eachMessage = async ({ partition, message }) => {
      const offset = Number(message.offset);
      const ranges = (reads[partition] = reads[partition] || []);
      if (ranges.length && ranges[ranges.length - 1][1] === offset) ranges[ranges.length - 1][1] = offset + 1;
      else ranges.push([offset, offset + 1]);
    };
    await consumer.run({ autoCommitInterval: 200, eachMessage });
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(request.lasting)));
  } finally {
    await consumer.disconnect();
  }
  return { shares, reads };
}

async function transaction(request) {
  const producer = client(request).producer({ transactionalId: request.topic, maxInFlightRequests: 1, idempotent: true });
  const began = Date.now();
  let said = null;
  await producer.connect();
  try {
    const transaction = await producer.transaction();
    await transaction.send({ topic: request.topic, messages: [{ value: 'x' }] });
    await transaction.commit();
  } catch (error) {
    said = error;
  } finally {
    await producer.disconnect();
  }
  return { error: said ? `${said.name}: ${said.message}` : '', final: Boolean(said) && !said.retriable, seconds: (Date.now() - began) / 1000 };
}

async function admin(request) {
  const { topic, group: groupId } = request;
  const kafka = client(request);
  const face = kafka.admin();
  await face.connect();
  const seen = {};
  const partitions = async () => (await face.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;
  const retention = async () => {
    const asked = { type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['retention.ms'] };
    const found = await face.describeConfigs({ includeSynonyms: false, resources: [asked] });
    return found.resources[0].configEntries[0].configValue;
  };
  const place = async () => Number((await face.fetchOffsets({ groupId, topics: [topic] }))[0].partitions.find((p) => p.partition === 0).offset);
  const ends = async () => (await face.fetchTopicOffsets(topic)).find((p) => p.partition === 0);
  try {
    const cluster = await face.describeCluster();
    seen.brokers = cluster.brokers.length;
    seen['cluster id'] = cluster.clusterId.length;
    const wanted = [{ topic, numPartitions: 3, replicationFactor: 1, configEntries: [{ name: 'retention.ms', value: '7200000' }] }];
    await face.createTopics({ topics: wanted });
    seen['create again'] = (await face.createTopics({ topics: wanted })) ? 'created' : 'kafkajs answers false: exists';
    seen.listed = (await face.listTopics()).includes(topic);
    seen.partitions = await partitions();
    seen.retention = await retention();
    const entries = [{ name: 'retention.ms', value: '3600000' }];
    await face.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: entries }] });
    seen.altered = await retention();
    await face.createPartitions({ topicPartitions: [{ topic, count: 5 }] });
    seen.grown = await partitions();
    const producer = kafka.producer();
    const first = Date.now() - 60_000;
    await producer.connect();
    const messages = [...Array(10).keys()].map((n) => ({ partition: 0, value: `v${n}`, timestamp: String(first + 1000 * n) }));
    await producer.send({ topic, messages });
    await producer.disconnect();
    seen.earliest = Number((await ends()).low);
    seen.latest = Number((await ends()).high);
    seen['at time'] = Number((await face.fetchTopicOffsetsByTimestamp(topic, first + 3500)).find((p) => p.partition === 0).offset);
    await consume({ bootstrap: request.bootstrap, topic, group: groupId, enough: '10' });
    seen['group listed'] = (await face.listGroups()).groups.some((found) => found.groupId === groupId);
    seen['group state'] = (await face.describeGroups([groupId])).groups[0].state;
    seen['group offset'] = await place();
    await face.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '3' }] });
    seen['group moved'] = await place();
    await face.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] });
    seen['records deleted'] = Number((await ends()).low);
    await face.deleteGroups([groupId]);
    seen['group deleted'] = !(await face.listGroups()).groups.some((found) => found.groupId === groupId);
    await face.deleteTopics({ topics: [topic] });
    seen.deleted = !(await face.listTopics()).includes(topic);
  } finally {
    await face.disconnect();
  }
  return seen;
}

const verbs = { hello, produce, consume, member, transaction, admin };

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [verb, ...parts] = line.split(' ');
    const request = Object.fromEntries(parts.map((part) => [part.slice(0, part.indexOf('=')), part.slice(part.indexOf('=') + 1)]));
    let answer;
    try {
      answer = { ok: await verbs[verb](request) };
    } catch (error) {
      answer = { error: `${error.name}: ${error.message}` };
    }
    console.log(JSON.stringify(answer));
  }
}

main();
