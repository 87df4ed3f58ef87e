import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import jakarta.jms.BytesMessage;
import jakarta.jms.CompletionListener;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** A producer, and how it sends. */
final class Sending {

  private final Session session;
  private final MessageProducer handle;

  Sending(Session session, MessageProducer handle) {
    this.session = session;
    this.handle = handle;
  }

  /** Send texts, a map, or bytes of a size; gives how many the server has accepted. */
  Object send(JsonObject fields) throws Exception {
    List<Message> messages = new ArrayList<>();
    for (String body : Peer.texts(fields, "bodies")) {
      messages.add(session.createTextMessage(body));
    }
    if (fields.has("map")) {
      MapMessage map = session.createMapMessage();
      for (Map.Entry<String, JsonElement> each : fields.getAsJsonObject("map").entrySet()) {
        map.setString(each.getKey(), each.getValue().getAsString());
      }
      messages.add(map);
    }
    if (fields.has("size")) {
      BytesMessage large = session.createBytesMessage();
      large.writeBytes(patterned(fields.get("size").getAsInt()));
      messages.add(large);
    }
    for (Message message : messages) {
      describe(message, fields);
    }
    if (fields.has("at_once")) {
      return sendAtOnce(messages, destination(fields), fields.has("tells"));
    }
    if (fields.has("not_persistent")) {
      handle.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
    }
    for (Message message : messages) {
      if (destination(fields) == null) {
        handle.send(message);
      } else {
        handle.send(destination(fields), message);
      }
    }
    return messages.size();
  }

  private void describe(Message message, JsonObject fields) throws JMSException {
    if (fields.has("properties")) {
      for (Map.Entry<String, JsonElement> each : fields.getAsJsonObject("properties").entrySet()) {
        message.setStringProperty(each.getKey(), each.getValue().getAsString());
      }
    }
    if (fields.has("reply_to")) {
      message.setJMSReplyTo(session.createTopic(Peer.text(fields, "reply_to")));
    }
  }

  /** Where an anonymous producer sends to. */
  private Destination destination(JsonObject fields) throws JMSException {
    return fields.has("topic") ? session.createTopic(Peer.text(fields, "topic")) : null;
  }

  /** Send without waiting for each; gives how many were accepted, or with `tells` the numbers of those. */
  private Object sendAtOnce(List<Message> messages, Destination to, boolean tells) throws Exception {
    CountDownLatch left = new CountDownLatch(messages.size());
    Queue<Integer> accepted = new ConcurrentLinkedQueue<>();
    AtomicReference<Exception> failed = new AtomicReference<>();
    for (int number = 0; number < messages.size(); number++) {
      CompletionListener listener = new Completing(number, left, accepted, failed);
      if (to == null) {
        handle.send(messages.get(number), listener);
      } else {
        handle.send(to, messages.get(number), listener);
      }
    }
    if (!left.await(Peer.STEP_MS, TimeUnit.MILLISECONDS)) {
      throw new JMSException("of " + left.getCount() + " messages nothing was heard");
    }
    if (tells) {
      return accepted;
    }
    if (failed.get() != null) {
      throw failed.get();
    }
    return accepted.size();
  }

  /** Waits for what becomes of one message. */
  private record Completing(
      int number, CountDownLatch left, Queue<Integer> accepted, AtomicReference<Exception> failed)
      implements CompletionListener {

    @Override
    public void onCompletion(Message message) {
      accepted.add(number);
      left.countDown();
    }

    @Override
    public void onException(Message message, Exception error) {
      failed.set(error);
      left.countDown();
    }
  }

  Object sendRich() throws JMSException {
    List<Message> messages = Rich.messages(session);
    for (Message message : messages) {
      handle.send(message, DeliveryMode.PERSISTENT, 7, 3_600_000);
    }
    return messages.size();
  }

  /** Send the text of a request back. */
  void answer(Message request) throws JMSException {
    TextMessage answer = session.createTextMessage("answer to " + Consuming.textOf(request));
    answer.setJMSCorrelationID(request.getJMSMessageID());
    handle.send(request.getJMSReplyTo(), answer);
  }

  void close() throws JMSException {
    handle.close();
  }

  /** Bytes that differ from place to place, so that parts in a wrong order show. */
  static byte[] patterned(int size) {
    byte[] data = new byte[size];
    for (int place = 0; place < size; place++) {
      data[place] = (byte) (place * 31 / 7);
    }
    return data;
  }
}
