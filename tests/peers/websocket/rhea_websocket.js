// rhea over a WebSocket: sends messages to a log, reads them back, asks the management node, and tells what it saw.
// node rhea_websocket.js URL USER PASSWORD LOG COUNT
"use strict";

const rhea = require("rhea");
const WebSocket = require("ws");

const [url, username, password, log, count] = process.argv.slice(2);
const seen = { accepted: 0, bodies: [], management: null, error: null };
const container = rhea.create_container();
const connect = container.websocket_connect(WebSocket);
const connection = container.connect({
  connection_details: connect(url, ["amqp"], {}),
  username,
  password,
  reconnect: false,
});

function finish() {
  const isWhole = seen.accepted === Number(count) && seen.bodies.length === Number(count);
  if (isWhole && seen.management !== null) {
    connection.close();
  }
}

function fail(context) {
  const error = (context.connection && context.connection.error) || context.error || context.sender?.error;
  seen.error = String((error && (error.condition || error.message)) || error);
}

const sender = connection.open_sender(log);
const receiver = connection.open_receiver({ source: { address: log } });
const replies = connection.open_receiver({ source: { address: "$management" }, target: { address: "replies" } });
const requests = connection.open_sender("$management");
let sent = 0;

function send() {
  // A receiver without a filter reads from now on, so it comes first.
  while (receiver.is_open() && sender.sendable() && sent < Number(count)) {
    sender.send({ body: `message ${sent}` });
    sent += 1;
  }
}

receiver.on("receiver_open", send);
sender.on("sendable", send);
sender.on("accepted", () => {
  seen.accepted += 1;
  finish();
});
receiver.on("message", (context) => {
  seen.bodies.push(context.message.body);
  finish();
});
requests.once("sendable", () => {
  const application_properties = { operation: "READ", type: "headwater.log", name: log };
  requests.send({ reply_to: "replies", correlation_id: 7, application_properties });
});
replies.on("message", ({ message }) => {
  const { statusCode } = message.application_properties;
  seen.management = { statusCode, correlation: message.correlation_id, name: message.body.name };
  finish();
});
for (const event of ["connection_error", "session_error", "sender_error", "receiver_error", "error", "rejected"]) {
  container.on(event, fail);
}
container.on("disconnected", (context) => {
  if (!connection.is_closed()) {
    fail(context);
  }
  process.stdout.write(JSON.stringify(seen));
});
container.on("connection_close", () => process.stdout.write(JSON.stringify(seen), () => process.exit(0)));
