import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.qpid.jms.JmsConnection;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Connections, and what was made of them, by the names that the commands give them; the one without a name is "". */
final class Peer {

  static final long STEP_MS = 20_000;

  private static final Map<String, Integer> ACKNOWLEDGING =
      Map.of(
          "auto", Session.AUTO_ACKNOWLEDGE,
          "client", Session.CLIENT_ACKNOWLEDGE,
          "dups_ok", Session.DUPS_OK_ACKNOWLEDGE,
          "transacted", Session.SESSION_TRANSACTED);

  private final Map<String, JmsConnection> connections = new HashMap<>();
  private final Map<String, Session> sessions = new HashMap<>();
  private final Map<String, Sending> producers = new HashMap<>();
  private final Map<String, Consuming> consumers = new HashMap<>();
  private final Map<String, Destination> temporary = new HashMap<>();
  private final Told told = new Told();

  Map<String, Main.Command> commands() {
    Map<String, Main.Command> commands = new HashMap<>();
    commands.put("connect", this::connect);
    commands.put("session", this::session);
    commands.put("producer", this::producer);
    commands.put("consumer", this::consumer);
    commands.put("temporary", this::temporary);
    commands.put("send", fields -> producers.get(text(fields, "to")).send(fields));
    commands.put("send_rich", fields -> producers.get(text(fields, "to")).sendRich());
    commands.put("receive", fields -> consumers.get(text(fields, "of")).receive(fields));
    commands.put("receive_rich", fields -> consumers.get(text(fields, "of")).receiveRich());
    commands.put("receive_properties", fields -> consumers.get(text(fields, "of")).receiveProperties());
    commands.put("receive_no_wait", fields -> consumers.get(text(fields, "of")).receiveNoWait());
    commands.put("listened", fields -> consumers.get(text(fields, "of")).listened(fields));
    commands.put("answer", this::answer);
    commands.put("browse", this::browse);
    commands.put("recover", fields -> done(() -> sessions.get(text(fields, "of")).recover()));
    commands.put("unsubscribe", fields -> done(() -> sessions.get(text(fields, "of")).unsubscribe(text(fields, "name"))));
    commands.put("start", fields -> done(() -> connections.get(text(fields, "of")).start()));
    commands.put("stop", fields -> done(() -> connections.get(text(fields, "of")).stop()));
    commands.put("delete", this::delete);
    commands.put("told", fields -> told.await(fields.get("count").getAsInt()));
    commands.put("close", this::close);
    return commands;
  }

  /** Something that gives nothing. */
  private interface Act {
    void run() throws JMSException;
  }

  private static Object done(Act act) throws JMSException {
    act.run();
    return null;
  }

  private Object connect(JsonObject fields) throws JMSException {
    JmsConnectionFactory factory = new JmsConnectionFactory(text(fields, "uri"));
    if (fields.has("client_id")) {
      factory.setClientID(text(fields, "client_id"));
    }
    JmsConnection made =
        (JmsConnection)
            (fields.has("user")
                ? factory.createConnection(text(fields, "user"), text(fields, "password"))
                : factory.createConnection());
    String name = text(fields, "as");
    connections.put(name, made);
    made.addConnectionListener(new Listening(name, told));
    made.setExceptionListener(error -> told.add(name, "failed", error.getMessage()));
    if (!fields.has("stopped")) {
      made.start();
    } else {
      // A connection is made when it is first used.
      made.getMetaData().getProviderVersion();
    }
    return made.getMetaData().getJMSProviderName();
  }

  private Object session(JsonObject fields) throws JMSException {
    Connection connection = connections.get(text(fields, "of"));
    int mode = ACKNOWLEDGING.get(fields.has("ack") ? text(fields, "ack") : "auto");
    sessions.put(text(fields, "as"), connection.createSession(mode));
    return null;
  }

  private Object producer(JsonObject fields) throws JMSException {
    Session session = sessions.get(text(fields, "of"));
    MessageProducer made = session.createProducer(destination(session, fields));
    producers.put(text(fields, "as"), new Sending(session, made));
    return null;
  }

  private Object consumer(JsonObject fields) throws JMSException {
    Session session = sessions.get(text(fields, "of"));
    Consuming made = new Consuming(made(session, fields), fields.has("listens"));
    consumers.put(text(fields, "as"), made);
    return null;
  }

  private MessageConsumer made(Session session, JsonObject fields) throws JMSException {
    Destination from = destination(session, fields);
    String selector = fields.has("selector") ? text(fields, "selector") : null;
    if (fields.has("durable")) {
      return session.createDurableConsumer((Topic) from, text(fields, "durable"), selector, false);
    }
    if (fields.has("shared")) {
      return session.createSharedConsumer((Topic) from, text(fields, "shared"), selector);
    }
    if (fields.has("shared_durable")) {
      return session.createSharedDurableConsumer((Topic) from, text(fields, "shared_durable"), selector);
    }
    return session.createConsumer(from, selector, fields.has("no_local"));
  }

  private Object temporary(JsonObject fields) throws JMSException {
    Session session = sessions.get(text(fields, "of"));
    boolean isQueue = "queue".equals(text(fields, "kind"));
    Destination made = isQueue ? session.createTemporaryQueue() : session.createTemporaryTopic();
    temporary.put(text(fields, "as"), made);
    return isQueue ? ((Queue) made).getQueueName() : ((Topic) made).getTopicName();
  }

  /** Take a request, and send its text back to where it says. */
  private Object answer(JsonObject fields) throws JMSException {
    Message request = consumers.get(text(fields, "of")).next();
    producers.get(text(fields, "to")).answer(request);
    return Consuming.textOf(request);
  }

  private Object browse(JsonObject fields) throws JMSException {
    Session session = sessions.get(text(fields, "of"));
    List<String> seen = new ArrayList<>();
    try (QueueBrowser browser = session.createBrowser(session.createQueue(text(fields, "queue")))) {
      for (Enumeration<?> found = browser.getEnumeration(); found.hasMoreElements(); ) {
        seen.add(Consuming.textOf((Message) found.nextElement()));
      }
    }
    return seen;
  }

  private Object delete(JsonObject fields) throws JMSException {
    Destination found = temporary.get(text(fields, "of"));
    if (found instanceof jakarta.jms.TemporaryQueue) {
      ((jakarta.jms.TemporaryQueue) found).delete();
    } else {
      ((jakarta.jms.TemporaryTopic) found).delete();
    }
    return null;
  }

  private Object close(JsonObject fields) throws JMSException {
    String name = text(fields, "of");
    if (producers.containsKey(name)) {
      producers.get(name).close();
    } else if (consumers.containsKey(name)) {
      consumers.get(name).close();
    } else if (sessions.containsKey(name)) {
      sessions.get(name).close();
    } else {
      connections.get(name).close();
    }
    return null;
  }

  private Destination destination(Session session, JsonObject fields) throws JMSException {
    if (fields.has("topic")) {
      return session.createTopic(text(fields, "topic"));
    }
    if (fields.has("queue")) {
      return session.createQueue(text(fields, "queue"));
    }
    return fields.has("temporary") ? temporary.get(text(fields, "temporary")) : null;
  }

  static String text(JsonObject fields, String name) {
    return fields.has(name) ? fields.get(name).getAsString() : "";
  }

  static List<String> texts(JsonObject fields, String name) {
    List<String> found = new ArrayList<>();
    if (fields.has(name)) {
      for (JsonElement each : fields.getAsJsonArray(name)) {
        found.add(each.getAsString());
      }
    }
    return found;
  }
}
