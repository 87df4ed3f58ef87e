// rhea, the JavaScript client of AMQP 1.0: does what it is told line by line, one JSON object each, and answers each with one.
"use strict";

const readline = require("readline");
const rhea = require("rhea");

const OFFSET_SPEC = "rabbitmq:stream-offset-spec";
const container = rhea.create_container();
const connections = {};
const links = {};
const arrived = new Map(); // of each receiver, the messages that nobody asked for yet
const taken = new Map(); // of each receiver, the deliveries that were asked for
const ended = new Map(); // of each link, why it was closed
let waiting = []; // whoever asked for something that has not come about yet

container.on("error", () => {}); // each is told where it belongs
container.on("connection_error", (context) => {
  context.connection.fault = context.connection.fault || context.connection.error || context.error;
});
container.on("disconnected", (context) => {
  context.connection.loss = context.connection.fault || context.error || { description: "disconnected" };
  look();
});
container.on("connection_open", (context) => {
  context.connection.openings = (context.connection.openings || 0) + 1;
});
for (const event of ["connection_error", "connection_close", "session_error", "session_close"]) {
  container.on(event, look);
}
for (const event of ["settled", "accepted", "rejected", "released", "modified"]) {
  container.on(event, look);
}
for (const event of ["sendable", "receiver_open", "sender_open", "receiver_drained", "connection_open"]) {
  container.on(event, look);
}
for (const event of ["sender_error", "receiver_error", "sender_close", "receiver_close"]) {
  container.on(event, (context) => {
    const link = context.sender || context.receiver;
    if (!ended.has(link)) ended.set(link, link.error || {});
    look();
  });
}
container.on("message", (context) => {
  const { receiver, delivery, message } = context;
  arrived.get(receiver).push({ delivery, message });
  look();
});

function look() {
  waiting = waiting.filter((each) => !each());
}

// The value of a condition as soon as it has one; an error that it raises is raised here.
function until(condition) {
  return new Promise((resolve, reject) => {
    const attempt = () => {
      try {
        const value = condition();
        if (value === undefined || value === false) return false;
        resolve(value);
      } catch (error) {
        reject(error);
      }
      return true;
    };
    if (!attempt()) waiting.push(attempt);
  });
}

function raise(error) {
  throw Object.assign(new Error(error.description || error.message || "ended"), { condition: error.condition || "" });
}

function check(link) {
  if (ended.has(link)) raise(ended.get(link));
  if (link.connection.error) raise(link.connection.error);
}

function filterFor(offset) {
  const value = typeof offset === "number" ? rhea.types.wrap_ulong(offset) : offset;
  return { [OFFSET_SPEC]: rhea.types.wrap_described(value, OFFSET_SPEC) };
}

async function open(link, name) {
  links[name] = link;
  // A refused link is opened first, without what was asked for, and then closed.
  const isGranted = () => link.is_remote_open() && (link.is_sender() ? link.credit > 0 : link.source.address);
  await until(() => check(link) || Boolean(isGranted()));
  return { address: (link.is_sender() ? link.target : link.source).address, max_message_size: Number(link.remote.attach.max_message_size) };
}

const commands = {
  async connect({ as = "c", ...options }) {
    const connection = container.connect({ reconnect: false, ...options });
    connections[as] = connection;
    await until(() => (connection.loss ? raise(connection.loss) : connection.is_remote_open()));
    const { product } = connection.properties;
    return { product, capabilities: connection.remote.open.offered_capabilities };
  },

  sender: ({ as, of = "c", ...options }) => open(connections[of].open_sender(options), as),

  receiver: ({ as, of = "c", address, offset, source = {}, ...options }) => {
    const filter = offset === undefined ? {} : { filter: filterFor(offset) };
    const link = connections[of].open_receiver({
      source: { address, ...filter, ...source },
      credit_window: 0,
      autoaccept: false,
      ...options,
    });
    arrived.set(link, []);
    return open(link, as);
  },

  async send({ to, messages, settled = false, keep = false }) {
    const link = links[to];
    const deliveries = [];
    for (const message of messages) {
      await until(() => check(link) || link.sendable());
      deliveries.push(link.send(message));
    }
    if (settled) return deliveries.length;
    await until(() => check(link) || deliveries.every((each) => each.remote_settled || each.remote_state));
    const told = deliveries.map((each) => ({
      state: each.remote_state.constructor.composite_type,
      condition: each.remote_state.error ? each.remote_state.error.condition : undefined,
      settled: Boolean(each.remote_settled),
    }));
    if (!keep) deliveries.forEach((each) => each.settled || each.update(true));
    return told;
  },

  credit({ of, credit }) {
    links[of].add_credit(credit);
  },

  async receive({ of, count, outcome = "accept", details }) {
    const queue = arrived.get(links[of]);
    await until(() => queue.length >= count || check(links[of]));
    return queue.splice(0, count).map(({ delivery, message }) => {
      taken.set(links[of], [...(taken.get(links[of]) || []), delivery]);
      if (outcome !== "none") delivery[outcome](details);
      return message;
    });
  },

  // Accept the first of those that were taken, of which nothing was said, and let the server settle them.
  async settle_second({ of, count }) {
    const chosen = taken.get(links[of]).slice(0, count);
    chosen.forEach((delivery) => delivery.update(false, rhea.message.accepted().described()));
    await until(() => chosen.every((delivery) => delivery.remote_settled));
    return chosen.length;
  },

  async drain({ of, credit }) {
    const link = links[of];
    const drained = new Promise((resolve) => link.once("receiver_drained", resolve));
    link.add_credit(credit);
    link.drain_credit();
    await drained;
    return { arrived: arrived.get(link).length, credit: link.credit };
  },

  // In settle mode second: the server has settled all that was taken from a receiver.
  async settled({ of }) {
    await until(() => check(links[of]) || taken.get(links[of]).every((each) => each.remote_settled));
  },

  // What the answer to the attach says of the link.
  told: ({ of }) => links[of].remote.attach.properties,

  waiting: ({ of }) => arrived.get(links[of]).length,

  async leave({ of, closed = true }) {
    const link = links[of];
    closed ? link.close() : link.detach();
    await until(() => !link.is_remote_open());
    link.remove();
  },

  async end({ of }) {
    links[of].session.close();
    await until(() => !links[of].session.is_remote_open());
  },

  async ended({ of }) {
    const { condition, description } = await until(() => ended.get(links[of]));
    return { condition, description };
  },

  reconnected: ({ as = "c", times }) => until(() => connections[as].openings > times && connections[as].openings),

  async close({ as = "c" }) {
    connections[as].close();
    await until(() => !connections[as].is_remote_open());
  },

  // Messages whose parts JSON cannot tell: encoded, sent, received, and compared with what they were.
  async types({ to, of }) {
    const { types } = rhea;
    const values = [
      null, true, "text", types.wrap_ubyte(255), types.wrap_ushort(65535), types.wrap_uint(4294967295),
      types.wrap_ulong(1234567890), types.wrap_byte(-5), types.wrap_short(-300), types.wrap_int(-70000),
      types.wrap_long(-5000000000), types.wrap_float(1.5), types.wrap_double(2.25), types.wrap_timestamp(1700000000000),
      types.wrap_symbol("symbol"), types.wrap_binary(Buffer.from([0, 255])), types.wrap_list([1, "two", [3]]),
      types.wrap_map({ one: 1, two: { three: 3 } }), types.wrap_array([1, 2, 3], 0x71),
      rhea.message.data_section(Buffer.from("data")), rhea.message.data_sections(["one", "two"]),
      rhea.message.sequence_section([1, "two"]), rhea.message.sequence_sections([[1], [2, 3]]),
    ];
    const differing = [];
    for (const [number, body] of values.entries()) {
      const message = {
        durable: true, priority: 7, ttl: 1000, message_id: `id-${number}`, user_id: Buffer.from("user"), to: "to",
        subject: "subject", reply_to: "back", correlation_id: number, content_type: "text/plain", group_id: "group",
        group_sequence: 5, message_annotations: { "x-opt-a": "b" }, application_properties: { colour: "red", count: 3 },
        footer: { "x-sum": 1 }, body,
      };
      await commands.send({ to, messages: [message] });
      links[of].add_credit(1);
      const [found] = await commands.receive({ of, count: 1 });
      const expected = rhea.message.decode(rhea.message.encode(message));
      delete found.delivery_annotations;
      delete expected.delivery_annotations;
      if (JSON.stringify(found) !== JSON.stringify(expected)) differing.push([expected, found]);
    }
    return { count: values.length, differing };
  },
};

readline.createInterface({ input: process.stdin, terminal: false })
  .on("line", async (line) => {
    const { do: command, ...fields } = JSON.parse(line);
    let answer;
    try {
      answer = { seen: await commands[command](fields) };
    } catch (error) {
      answer = { error: error.message || error.description || String(error), code: error.condition || "" };
    }
    process.stdout.write(JSON.stringify(answer) + "\n");
  })
  .on("close", () => process.exit(0));
