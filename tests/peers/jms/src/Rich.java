import jakarta.jms.BytesMessage;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageEOFException;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Messages of every kind with every property, and what differs when they come back. */
final class Rich {

  private static final Map<String, Object> VALUES =
      new TreeMap<>(
          Map.of(
              "boolean", true,
              "byte", Byte.MIN_VALUE,
              "short", Short.MAX_VALUE,
              "int", Integer.MIN_VALUE,
              "long", Long.MAX_VALUE,
              "float", 1.5f,
              "double", -1e300,
              "string", "ünïcödé",
              "empty", ""));
  private static final byte[] BYTES = {0, 1, -1, 127, -128};

  private Rich() {}

  static List<Message> messages(Session session) throws JMSException {
    TextMessage text = session.createTextMessage("ünïcödé");
    TextMessage nothing = session.createTextMessage();
    BytesMessage bytes = session.createBytesMessage();
    bytes.writeBytes(BYTES);
    MapMessage map = session.createMapMessage();
    for (Map.Entry<String, Object> each : VALUES.entrySet()) {
      map.setObject(each.getKey(), each.getValue());
    }
    map.setChar("char", 'é');
    map.setBytes("bytes", BYTES);
    ObjectMessage object = session.createObjectMessage(new ArrayList<>(List.of("one", 2, 3.0)));
    StreamMessage stream = session.createStreamMessage();
    for (Object each : VALUES.values()) {
      stream.writeObject(each);
    }
    stream.writeBytes(BYTES);
    Message empty = session.createMessage();
    List<Message> messages = List.of(text, nothing, bytes, map, object, stream, empty);
    for (Message message : messages) {
      for (Map.Entry<String, Object> each : VALUES.entrySet()) {
        message.setObjectProperty(each.getKey(), each.getValue());
      }
      message.setJMSType("weather");
      message.setJMSCorrelationID("the one before");
      message.setJMSReplyTo(session.createTopic("back"));
      message.setStringProperty("JMSXGroupID", "group");
      message.setIntProperty("JMSXGroupSeq", 5);
    }
    return messages;
  }

  /** What is other than it was, of all messages in their order. */
  static List<String> differences(Consuming consumer) throws JMSException {
    List<String> seen = new ArrayList<>();
    compare(seen, "text", "ünïcödé", ((TextMessage) taken(seen, consumer)).getText());
    compare(seen, "nothing", null, ((TextMessage) taken(seen, consumer)).getText());
    BytesMessage bytes = (BytesMessage) taken(seen, consumer);
    byte[] read = new byte[(int) bytes.getBodyLength()];
    bytes.readBytes(read);
    compare(seen, "bytes", Arrays.toString(BYTES), Arrays.toString(read));
    compareMap(seen, (MapMessage) taken(seen, consumer));
    compare(seen, "object", List.of("one", 2, 3.0), ((ObjectMessage) taken(seen, consumer)).getObject());
    compareStream(seen, (StreamMessage) taken(seen, consumer));
    compare(seen, "empty", false, taken(seen, consumer) instanceof TextMessage);
    return seen;
  }

  private static Message taken(List<String> seen, Consuming consumer) throws JMSException {
    Message message = consumer.next();
    Map<String, Object> properties = new TreeMap<>();
    for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements(); ) {
      String name = (String) names.nextElement();
      if (!name.startsWith("JMSX")) {
        properties.put(name, message.getObjectProperty(name));
      }
    }
    compare(seen, "properties", VALUES, properties);
    compare(seen, "type", "weather", message.getJMSType());
    compare(seen, "correlation", "the one before", message.getJMSCorrelationID());
    compare(seen, "reply to", "back", String.valueOf(message.getJMSReplyTo()));
    compare(seen, "group", "group", message.getStringProperty("JMSXGroupID"));
    compare(seen, "group sequence", 5, message.getIntProperty("JMSXGroupSeq"));
    compare(seen, "priority", 7, message.getJMSPriority());
    compare(seen, "persistent", 2, message.getJMSDeliveryMode());
    compare(seen, "redelivered", false, message.getJMSRedelivered());
    compare(seen, "expires", message.getJMSTimestamp() + 3_600_000, message.getJMSExpiration());
    compare(seen, "has an id", true, message.getJMSMessageID().startsWith("ID:"));
    return message;
  }

  private static void compareMap(List<String> seen, MapMessage map) throws JMSException {
    for (Map.Entry<String, Object> each : VALUES.entrySet()) {
      compare(seen, "map " + each.getKey(), each.getValue(), map.getObject(each.getKey()));
    }
    compare(seen, "map char", 'é', map.getChar("char"));
    compare(seen, "map bytes", Arrays.toString(BYTES), Arrays.toString(map.getBytes("bytes")));
  }

  private static void compareStream(List<String> seen, StreamMessage stream) throws JMSException {
    for (Object each : VALUES.values()) {
      compare(seen, "stream", each, stream.readObject());
    }
    byte[] read = new byte[BYTES.length];
    stream.readBytes(read);
    compare(seen, "stream bytes", Arrays.toString(BYTES), Arrays.toString(read));
    stream.readBytes(read);
    try {
      seen.add("behind the stream came " + stream.readObject());
    } catch (MessageEOFException end) {
      return;
    }
  }

  private static void compare(List<String> seen, String what, Object wanted, Object found) {
    if (wanted == null ? found != null : !wanted.equals(found)) {
      seen.add(what + ": " + wanted + " came out as " + found);
    }
  }
}
