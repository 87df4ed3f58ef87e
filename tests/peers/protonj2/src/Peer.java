import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryMode;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.OutputStreamOptions;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.SenderOptions;
import org.apache.qpid.protonj2.client.StreamDelivery;
import org.apache.qpid.protonj2.client.StreamReceiver;
import org.apache.qpid.protonj2.client.StreamReceiverOptions;
import org.apache.qpid.protonj2.client.StreamSender;
import org.apache.qpid.protonj2.client.StreamSenderMessage;
import org.apache.qpid.protonj2.client.Tracker;
import org.apache.qpid.protonj2.client.exceptions.ClientException;

/** One connection, and its senders and receivers by the names that the commands give them. */
final class Peer {

  static final long STEP_S = 20;

  private static final String OFFSET_FILTER = "rabbitmq:stream-offset-spec";

  private final Client client = Client.create();
  private final Map<String, Sender> senders = new HashMap<>();
  private final Map<String, Receiver> receivers = new HashMap<>();
  private Connection connection;

  Map<String, Main.Command> commands() {
    Map<String, Main.Command> commands = new HashMap<>();
    commands.put("connect", this::connect);
    commands.put("sender", this::sender);
    commands.put("receiver", this::receiver);
    commands.put("send", this::send);
    commands.put("send_stream", this::sendStream);
    commands.put("receive", this::receive);
    commands.put("receive_stream", this::receiveStream);
    commands.put("drain", this::drain);
    commands.put("begin_transaction", this::beginTransaction);
    commands.put("disconnect", this::disconnect);
    return commands;
  }

  private Object connect(JsonObject fields) throws Exception {
    ConnectionOptions options = new ConnectionOptions();
    if (fields.has("user")) {
      options.user(text(fields, "user")).password(text(fields, "password"));
    }
    if (fields.has("mechanism")) {
      options.saslOptions().addAllowedMechanism(text(fields, "mechanism"));
    }
    if (fields.has("web_socket_path")) {
      options.transportOptions().useWebSockets(true).webSocketPath(text(fields, "web_socket_path"));
    }
    connection = client.connect(text(fields, "host"), fields.get("port").getAsInt(), options);
    connection.openFuture().get(STEP_S, TimeUnit.SECONDS);
    return connection.properties().get("product");
  }

  private Object sender(JsonObject fields) throws Exception {
    SenderOptions options = new SenderOptions();
    options.deliveryMode(fields.has("settled") ? DeliveryMode.AT_MOST_ONCE : DeliveryMode.AT_LEAST_ONCE);
    Sender made = connection.openSender(text(fields, "address"), options);
    made.openFuture().get(STEP_S, TimeUnit.SECONDS);
    senders.put(text(fields, "as"), made);
    return made.address();
  }

  private Object receiver(JsonObject fields) throws Exception {
    ReceiverOptions options = new ReceiverOptions();
    options.deliveryMode(fields.has("settled") ? DeliveryMode.AT_MOST_ONCE : DeliveryMode.AT_LEAST_ONCE);
    if (fields.has("credit")) {
      options.creditWindow(fields.get("credit").getAsInt());
    }
    if (fields.has("offset")) {
      options.sourceOptions().addFilter(OFFSET_FILTER, OFFSET_FILTER, text(fields, "offset"));
    }
    Receiver made =
        fields.has("dynamic")
            ? connection.openDynamicReceiver(options)
            : connection.openReceiver(text(fields, "address"), options);
    made.openFuture().get(STEP_S, TimeUnit.SECONDS);
    receivers.put(text(fields, "as"), made);
    return made.address();
  }

  /** Send texts; gives how many were accepted, or settled as they were sent. */
  private Object send(JsonObject fields) throws ClientException {
    List<Tracker> trackers = new ArrayList<>();
    for (JsonElement body : fields.getAsJsonArray("bodies")) {
      trackers.add(senders.get(text(fields, "to")).send(Message.create(body.getAsString())));
    }
    for (Tracker tracker : trackers) {
      tracker.awaitAccepted(STEP_S, TimeUnit.SECONDS);
    }
    return trackers.size();
  }

  /** Write a message piece by piece, and give it up in the middle if that is asked for. */
  private Object sendStream(JsonObject fields) throws Exception {
    try (StreamSender sender = connection.openStreamSender(text(fields, "address"))) {
      StreamSenderMessage message = sender.beginMessage();
      byte[] data = patterned(fields.get("size").getAsInt());
      OutputStream body = message.body(new OutputStreamOptions().bodyLength(data.length));
      int half = data.length / 2;
      body.write(data, 0, half);
      body.flush();
      if (fields.has("aborts")) {
        message.abort();
        return "aborted";
      }
      body.write(data, half, data.length - half);
      body.close();
      message.complete();
      message.tracker().awaitAccepted(STEP_S, TimeUnit.SECONDS);
      return "accepted";
    }
  }

  private Object receive(JsonObject fields) throws ClientException {
    List<String> seen = new ArrayList<>();
    while (seen.size() < fields.get("count").getAsInt()) {
      Delivery found = receivers.get(text(fields, "of")).receive(STEP_S, TimeUnit.SECONDS);
      if (found == null) {
        throw new ClientException("no message came in time, after " + seen);
      }
      Object body = found.message().body();
      seen.add(body instanceof byte[] ? described((byte[]) body) : String.valueOf(body));
      if (!found.settled()) {
        found.accept();
      }
    }
    return seen;
  }

  /** Read messages from the first on, piece by piece. */
  private Object receiveStream(JsonObject fields) throws ClientException, IOException {
    StreamReceiverOptions options = new StreamReceiverOptions();
    options.sourceOptions().addFilter(OFFSET_FILTER, OFFSET_FILTER, "first");
    List<String> seen = new ArrayList<>();
    try (StreamReceiver receiver = connection.openStreamReceiver(text(fields, "address"), options)) {
      while (seen.size() < fields.get("count").getAsInt()) {
        StreamDelivery found = receiver.receive(STEP_S, TimeUnit.SECONDS);
        if (found == null) {
          throw new ClientException("no message came in time, after " + seen);
        }
        seen.add(described(found.message().body().readAllBytes()));
        found.accept();
      }
    }
    return seen;
  }

  private Object drain(JsonObject fields) throws Exception {
    Receiver receiver = receivers.get(text(fields, "of"));
    if (fields.has("credit")) {
      receiver.addCredit(fields.get("credit").getAsInt());
    }
    receiver.drain().get(STEP_S, TimeUnit.SECONDS);
    return receiver.queuedDeliveries();
  }

  private Object beginTransaction(JsonObject fields) throws ClientException {
    connection.openSession().beginTransaction();
    return null;
  }

  private Object disconnect(JsonObject fields) {
    connection.close();
    return null;
  }

  private static String described(byte[] data) {
    return Arrays.equals(data, patterned(data.length)) ? data.length + " bytes" : "other bytes than were sent";
  }

  /** Bytes that differ from place to place, so that parts in a wrong order show. */
  private static byte[] patterned(int size) {
    byte[] data = new byte[size];
    for (int place = 0; place < size; place++) {
      data[place] = (byte) (place * 31 / 7);
    }
    return data;
  }

  static String text(JsonObject fields, String name) {
    return fields.has(name) ? fields.get(name).getAsString() : "";
  }
}
