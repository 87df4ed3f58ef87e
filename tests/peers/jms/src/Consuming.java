import com.google.gson.JsonObject;
import jakarta.jms.BytesMessage;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.TextMessage;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A consumer, and what was taken from it or has come by itself. */
final class Consuming {

  private static final int LARGE_BYTES = 1000;

  private final MessageConsumer handle;
  private final Told heard = new Told();

  Consuming(MessageConsumer handle, boolean listens) throws JMSException {
    this.handle = handle;
    if (listens) {
      handle.setMessageListener(
          message -> {
            try {
              heard.add(textOf(message), "", "");
            } catch (JMSException error) {
              heard.add(error.getMessage(), "", "");
            }
          });
    }
  }

  /** Take so many; with `acknowledge` the last one, and so all, are acknowledged. */
  Object receive(JsonObject fields) throws JMSException {
    List<String> seen = new ArrayList<>();
    Message last = null;
    while (seen.size() < fields.get("count").getAsInt()) {
      last = next();
      seen.add(textOf(last));
    }
    if (fields.has("acknowledge")) {
      last.acknowledge();
    }
    return seen;
  }

  /** The next message; it is an error if there is none in time. */
  Message next() throws JMSException {
    Message found = handle.receive(Peer.STEP_MS);
    if (found == null) {
      throw new JMSException("no message came in time");
    }
    return found;
  }

  Object receiveNoWait() throws JMSException {
    Message found = handle.receiveNoWait();
    return found == null ? null : textOf(found);
  }

  /** The next message by its properties and by what it answers. */
  Object receiveProperties() throws JMSException {
    Message found = next();
    Map<String, Object> seen = new HashMap<>();
    for (Enumeration<?> names = found.getPropertyNames(); names.hasMoreElements(); ) {
      String name = (String) names.nextElement();
      seen.put(name, found.getObjectProperty(name));
    }
    seen.put("JMSCorrelationID", found.getJMSCorrelationID());
    return seen;
  }

  Object receiveRich() throws JMSException {
    return Rich.differences(this);
  }

  /** All that came by itself, once there is so much. */
  Object listened(JsonObject fields) throws InterruptedException {
    List<String> seen = new ArrayList<>();
    heard.await(fields.get("count").getAsInt()).forEach(each -> seen.add(each[0]));
    return seen;
  }

  void close() throws JMSException {
    handle.close();
  }

  /** The text of a message; of many bytes their size, if they are those that are sent here. */
  static String textOf(Message message) throws JMSException {
    if (message instanceof TextMessage) {
      return ((TextMessage) message).getText();
    }
    BytesMessage bytes = (BytesMessage) message;
    byte[] data = new byte[(int) bytes.getBodyLength()];
    bytes.readBytes(data);
    if (data.length < LARGE_BYTES) {
      return new String(data, StandardCharsets.UTF_8);
    }
    return Arrays.equals(data, Sending.patterned(data.length)) ? data.length + " bytes" : "other bytes than were sent";
  }
}
