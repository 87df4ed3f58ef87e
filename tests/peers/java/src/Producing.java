import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.rabbitmq.stream.ConfirmationHandler;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.MessageBuilder;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.ProducerBuilder;
import com.rabbitmq.stream.Resource;
import com.rabbitmq.stream.compression.Compression;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** A producer, and what became of its messages. */
final class Producing {

  private final Producer producer;
  private final Map<String, Integer> outcomes = new TreeMap<>();
  private int sent;
  private volatile boolean isOpen = true;
  private Thread flood;

  Producing(Environment environment, JsonObject fields, Resource.StateListener listener) {
    ProducerBuilder builder = environment.producerBuilder().name(Peer.text(fields, "name"));
    if (fields.has("super")) {
      ProducerBuilder.RoutingConfiguration routing =
          builder.superStream(Peer.text(fields, "super")).routing(Producing::firstWord);
      if ("key".equals(Peer.text(fields, "route"))) {
        routing.key();
      } else {
        routing.hash();
      }
    } else {
      // Producers of a super stream have no state that could be listened to.
      builder.stream(Peer.text(fields, "stream")).listeners(listener, this::changed);
    }
    if (fields.has("sub_entry")) {
      builder.subEntrySize(fields.get("sub_entry").getAsInt());
      builder.compression(Compression.valueOf(Peer.text(fields, "compression").toUpperCase(Locale.ROOT)));
    }
    if (fields.has("batch")) {
      builder.batchSize(fields.get("batch").getAsInt());
    }
    if (fields.has("filtered")) {
      builder.filterValue(Producing::filterValue);
    }
    producer = builder.confirmTimeout(Duration.ofSeconds(15)).build();
  }

  long lastId() {
    return producer.getLastPublishingId();
  }

  /** Send, wait until all of it is answered, and give how many answers of each kind there were. */
  Map<String, Integer> send(JsonObject fields) throws InterruptedException {
    long id = fields.has("first_id") ? fields.get("first_id").getAsLong() : -1;
    JsonArray bodies = fields.getAsJsonArray("bodies");
    synchronized (outcomes) {
      outcomes.clear();
      sent = 0;
    }
    for (int number = 0; number < bodies.size(); number++) {
      sendOne(bodies.get(number).getAsString(), id < 0 ? -1 : id + number);
    }
    return answered();
  }

  /** Send on and on, until the producer is no more. */
  Object flood() {
    flood =
        new Thread(
            () -> {
              for (int number = 0; isOpen; number++) {
                sendOne("flood " + number, -1);
              }
            });
    flood.start();
    return null;
  }

  /** What became of a flood, once it has ended; the client does not answer all that was under way. */
  Map<String, Integer> flooded() throws InterruptedException {
    flood.join(Peer.STEP.toMillis());
    synchronized (outcomes) {
      outcomes.put("sent", sent);
      return new TreeMap<>(outcomes);
    }
  }

  void close() {
    producer.close();
  }

  private void sendOne(String body, long id) {
    MessageBuilder builder = producer.messageBuilder().addData(body.getBytes(StandardCharsets.UTF_8));
    if (id >= 0) {
      builder.publishingId(id);
    }
    synchronized (outcomes) {
      sent++;
    }
    ConfirmationHandler done =
        status -> count(status.isConfirmed() ? "confirmed" : String.valueOf(status.getCode()));
    try {
      producer.send(builder.build(), done);
    } catch (RuntimeException refused) {
      count("thrown");
      isOpen = false;
    }
  }

  private void count(String outcome) {
    synchronized (outcomes) {
      outcomes.merge(outcome, 1, Integer::sum);
      outcomes.notifyAll();
    }
  }

  private Map<String, Integer> answered() throws InterruptedException {
    long end = System.nanoTime() + Peer.STEP.toNanos();
    synchronized (outcomes) {
      while (outcomes.values().stream().mapToInt(Integer::intValue).sum() < sent && System.nanoTime() < end) {
        outcomes.wait(100);
      }
      return new TreeMap<>(outcomes);
    }
  }

  private void changed(Resource.Context context) {
    isOpen = context.currentState() != Resource.State.CLOSED;
  }

  /** The word by which messages are filtered and routed. */
  private static String firstWord(Message message) {
    return new String(message.getBodyAsBinary(), StandardCharsets.UTF_8).split(" ")[0];
  }

  private static String filterValue(Message message) {
    String word = firstWord(message);
    return word.equals("-") ? null : word;
  }
}
