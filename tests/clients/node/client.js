#!/usr/bin/env node
// The scenarios of the client tests, with rhea.
//
//   client.js URL SCENARIO [ARGUMENT...]
//
// What a scenario returns is printed as one line of JSON. A scenario that
// fails, or is not done within a minute, ends the program with a status other
// than 0.
'use strict';

const assert = require('node:assert');
const crypto = require('node:crypto');
const rhea = require('rhea');

const COUNT = 20;                // messages in the scenarios that pass a few
const LARGE = 10 * 1024 * 1024;  // bytes of body in the scenario "large"

const url = new URL(process.argv[2]);
const [scenario, ...args] = process.argv.slice(3);

// once resolves with the context of the emitter's next event of that name.
function once(emitter, name) {
  return new Promise((resolve) => emitter.once(name, resolve));
}

async function connect() {
  const connection = rhea.create_container().connect({ host: url.hostname, port: url.port, reconnect: false });
  const fail = (what) => (context) => {
    console.error(what, context.error || (context.connection && context.connection.error));
    process.exit(1);
  };
  connection.on('disconnected', fail('disconnected'));
  connection.on('connection_error', fail('connection error'));
  connection.on('receiver_error', fail('receiver error'));
  connection.on('sender_error', fail('sender error'));
  await once(connection, 'connection_open');
  return connection;
}

async function close(...connections) {
  for (const connection of connections) {
    connection.close();
    await once(connection, 'connection_close');
  }
}

async function openReceiver(connection, source, options) {
  const receiver = connection.open_receiver({ source, autoaccept: false, ...options });
  await once(receiver, 'receiver_open');
  return receiver;
}

async function openSender(connection, target, options) {
  const sender = connection.open_sender({ target, treat_modified_as_released: false, ...options });
  sender.setMaxListeners(0);  // one listener for each delivery not yet settled
  await once(sender, 'sender_open');
  return sender;
}

// credit waits until the sender may send.
async function credit(sender) {
  while (!sender.sendable()) {
    await once(sender, 'sendable');
  }
}

// send sends and resolves with the delivery once the peer has settled it.
async function send(sender, message) {
  await credit(sender);
  const delivery = sender.send(message);
  return settled(sender, delivery);
}

function settled(sender, delivery) {
  return new Promise((resolve) => {
    sender.on('settled', function check(context) {
      if (context.delivery === delivery) {
        sender.removeListener('settled', check);
        resolve(delivery);
      }
    });
  });
}

function outcome(delivery) {
  return delivery.remote_state.constructor.composite_type;
}

function count(tally, name) {
  tally[name] = (tally[name] || 0) + 1;
}

// note adds to report what the receiver said beside the bare outcome.
function note(report, state) {
  if (state.error) {
    report.condition = state.error.condition;
    report.description = state.error.description;
  }
  if (state.constructor.composite_type === 'modified') {
    report.failed = state.delivery_failed;
    report.undeliverable = state.undeliverable_here;
    report.annotations = state.message_annotations;
  }
}

// exchange passes messages to a receiver that answers each, and says what
// became of them.
async function exchange(address, options) {
  const { messages = COUNT, body = 'hello', presettle = false, look = () => {}, senderOptions, receiverOptions } = options;
  const answer = options.answer || ((delivery) => delivery.accept());
  const report = { received: 0, presettled: 0, outcomes: {} };
  const [receiving, sending] = [await connect(), await connect()];

  const receiver = await openReceiver(receiving, address, receiverOptions);
  const received = new Promise((resolve) => receiver.on('message', ({ message, delivery }) => {
    report.received++;
    look(report, message);
    if (delivery.remote_settled) {
      report.presettled++;
    } else {
      answer(delivery);
    }
    if (report.received === messages) {
      resolve();
    }
  }));

  const sender = await openSender(sending, address, senderOptions);
  const outcomes = [];
  for (let i = 0; i < messages; i++) {
    await credit(sender);
    const delivery = sender.send({ message_id: i, body });
    if (presettle) {
      delivery.settled = true;
    }
    if (!delivery.settled) {
      outcomes.push(settled(sender, delivery));
    }
  }
  for (const delivery of await Promise.all(outcomes)) {
    count(report.outcomes, outcome(delivery));
    note(report, delivery.remote_state);
  }
  await received;
  await close(receiving, sending);
  return report;
}

function large(address) {
  const body = crypto.randomBytes(LARGE);
  const digest = (data) => crypto.createHash('sha256').update(data).digest('hex');
  return exchange(address, {
    messages: 1,
    body: rhea.message.data_section(body),
    look: (report, message) => {
      report.bytes = message.body.content.length;
      report.intact = digest(message.body.content) === digest(body);
    },
  });
}

// The first receiver goes away with the message; the sender sends it again.
async function atLeastOnce(address) {
  const report = { received: 0, outcomes: {} };
  const [receiving, sending] = [await connect(), await connect()];
  const modes = { snd_settle_mode: 0, rcv_settle_mode: 0 };

  const first = await openReceiver(receiving, address, modes);
  first.on('message', () => { report.received++; first.close(); });
  const sender = await openSender(sending, address, modes);
  count(report.outcomes, outcome(await send(sender, { body: 'once' })));

  const second = await openReceiver(receiving, address, modes);
  second.on('message', ({ delivery }) => { report.received++; delivery.accept(); });
  count(report.outcomes, outcome(await send(sender, { body: 'again' })));
  await close(receiving, sending);
  return report;
}

// The receiver accepts, the sender settles, and only then does the receiver.
async function exactlyOnce(address) {
  const report = { received: 0, accepted_unsettled: 0, settled_by_sender: 0 };
  const [receiving, sending] = [await connect(), await connect()];

  const receiver = await openReceiver(receiving, address, { rcv_settle_mode: 1 });
  receiver.on('message', ({ delivery }) => { report.received++; delivery.accept(); });
  const done = new Promise((resolve) => receiver.on('settled', () => {
    if (++report.settled_by_sender === COUNT) {
      resolve();
    }
  }));

  const sender = await openSender(sending, address, { autosettle: false });
  sender.on('accepted', ({ delivery }) => {
    report.accepted_unsettled += delivery.remote_settled ? 0 : 1;
    delivery.update(true);
  });
  for (let i = 0; i < COUNT; i++) {
    await credit(sender);
    sender.send({ body: 'hello' });
  }
  await done;
  await close(receiving, sending);
  return report;
}

// The receiver takes back the credit that is left over, then goes on.
async function drain(address) {
  const report = { received: 0, received_later: 0 };
  const [receiving, sending] = [await connect(), await connect()];

  const receiver = await openReceiver(receiving, address, { credit_window: 0 });
  let into = 'received';
  receiver.on('message', ({ delivery }) => { report[into]++; delivery.accept(); });
  receiver.add_credit(10);
  const sender = await openSender(sending, address);
  for (let i = 0; i < 3; i++) {
    await send(sender, { body: 'hello' });
  }
  const before = receiver.delivery_count;
  receiver.drain_credit();
  await once(receiver, 'receiver_drained');
  report.drained = receiver.delivery_count - before;
  report.credit_after_drain = receiver.credit;

  into = 'received_later';
  receiver.drain = false;
  receiver.add_credit(1);
  await send(sender, { body: 'hello' });
  await close(receiving, sending);
  return report;
}

// A service answers to the dynamic address of whoever asks.
async function requestResponse(address) {
  const [serving, asking] = [await connect(), await connect()];

  const service = await openReceiver(serving, address);
  const answers = await openSender(serving, {});
  service.on('message', ({ message, delivery }) => {
    delivery.accept();
    answers.send({ to: message.reply_to, correlation_id: message.correlation_id, body: message.body.toUpperCase() });
  });

  const receiver = await openReceiver(asking, { dynamic: true });
  const sender = await openSender(asking, address);
  const report = { replies: [], reply_to: receiver.source.address.replace(/[A-Za-z0-9+_]{15}$/, '*') };
  for (const body of ['one', 'two', 'three']) {
    await credit(sender);
    const reply = once(receiver, 'message');
    sender.send({ reply_to: receiver.source.address, correlation_id: body, body });
    const { message, delivery } = await reply;
    delivery.accept();
    assert.strictEqual(message.correlation_id, body);
    report.replies.push(message.body);
  }
  await close(serving, asking);
  return report;
}

// What a sender sees as consumers come and go (RT E44-E47).
async function creditRules(address) {
  const report = {};
  const [sending, receiving] = [await connect(), await connect()];
  // An anonymous sender has credit at once (E32). It is attached after all
  // that went before on this connection: once its credit is here, the router
  // knows the rest, and has answered it.
  const sync = async () => {
    const probe = await openSender(sending, {});
    await credit(probe);
    probe.close();
    await once(probe, 'sender_close');
  };

  const sender = await openSender(sending, address);
  await sync();
  report.without_consumer = sender.credit;

  const first = await openReceiver(receiving, address);
  await credit(sender);
  report.with_consumer = sender.credit;

  first.close();
  await once(first, 'receiver_close');
  report.consumer_left = sender.credit;
  const drained = new Promise((resolve) => sender.once('sender_draining', () => {
    const left = sender.credit;
    sender.set_drained(true);
    resolve(left);
  }));
  report.outcome_without_consumer = outcome(await send(sender, { body: 'nobody home' }));
  report.drained = await drained;
  await sync();
  report.credit_after_drain = sender.credit;

  await openReceiver(receiving, address);
  await credit(sender);
  report.with_consumer_again = sender.credit;
  await close(sending, receiving);
  return report;
}

// Many clients, each sending to the next and receiving from the one before.
async function ring(address, clients) {
  const n = Number(clients);
  const report = { clients: n, received: 0, outcomes: {} };
  const connections = await Promise.all(Array.from({ length: n }, connect));
  const receivers = await Promise.all(connections.map((c, i) => openReceiver(c, `${address}.${i}`)));
  for (const receiver of receivers) {
    receiver.on('message', ({ delivery }) => { report.received++; delivery.accept(); });
  }
  await Promise.all(connections.map(async (connection, i) => {
    const sender = await openSender(connection, `${address}.${(i + 1) % n}`);
    for (let sent = 0; sent < COUNT; sent++) {
      count(report.outcomes, outcome(await send(sender, { body: 'hello' })));
    }
  }));
  await close(...connections);
  return report;
}

const scenarios = {
  'unsettled': (address) => exchange(address, {}),
  'presettled': (address) => exchange(address, { presettle: true }),
  'rejected': (address) => exchange(address, {
    answer: (delivery) => delivery.reject({ condition: 'test:refused', description: 'not today' }),
  }),
  'released': (address) => exchange(address, { answer: (delivery) => delivery.release() }),
  'modified': (address) => exchange(address, {
    answer: (delivery) => delivery.modified({
      delivery_failed: true, undeliverable_here: true, message_annotations: { why: 'later' },
    }),
  }),
  'at-most-once': (address) => exchange(address, { senderOptions: { snd_settle_mode: 1 } }),
  'settled-for-receiver': (address) => exchange(address, { receiverOptions: { snd_settle_mode: 1 } }),
  'at-least-once': atLeastOnce,
  'exactly-once': exactlyOnce,
  'large': large,
  'drain': drain,
  'request-response': requestResponse,
  'credit': creditRules,
  'ring': ring,
};

// The program ends when its last connection has; the timer alone does not keep
// it going.
let stage = 'not done';
setTimeout(() => {
  console.error(`${stage} within a minute`);
  process.exit(1);
}, 60000).unref();

scenarios[scenario](...args).then((report) => {
  console.log(JSON.stringify(report));
  stage = 'done, but connections closed by both ends have not ended';
}, (error) => {
  console.error(error);
  process.exit(1);
});
