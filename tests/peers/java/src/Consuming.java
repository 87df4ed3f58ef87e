import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.ConsumerBuilder;
import com.rabbitmq.stream.ConsumerUpdateListener;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.MessageHandler;
import com.rabbitmq.stream.NoOffsetException;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Resource;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** A consumer, and what it was given. */
final class Consuming {

  private final JsonObject fields;
  private final String name;
  private final Told told;
  private final List<Object[]> taken = new ArrayList<>();
  private final Map<String, Long> last = new HashMap<>();
  private final Map<String, Consumer> ofStream = new ConcurrentHashMap<>();
  private volatile Consumer consumer;

  Consuming(JsonObject fields, Told told) {
    this.fields = fields;
    this.name = Peer.text(fields, "as");
    this.told = told;
  }

  void subscribe(Environment environment, Resource.StateListener listener) {
    ConsumerBuilder builder = environment.consumerBuilder().offset(offset());
    if (fields.has("name")) {
      builder.name(Peer.text(fields, "name"));
    }
    if (fields.has("super")) {
      builder.superStream(Peer.text(fields, "super"));
    } else {
      builder.stream(Peer.text(fields, "stream")).listeners(listener);
    }
    if ("auto".equals(Peer.text(fields, "tracking"))) {
      int every = fields.get("every").getAsInt();
      builder.autoTrackingStrategy().messageCountBeforeStorage(every).flushInterval(Duration.ofMinutes(1));
    } else if (fields.has("tracking")) {
      builder.manualTrackingStrategy().checkInterval(Duration.ZERO);
    }
    if (fields.has("group")) {
      builder.singleActiveConsumer().consumerUpdateListener(this::updated);
    }
    if (fields.has("filter")) {
      builder
          .filter()
          .values(Peer.texts(fields, "filter"))
          .matchUnfiltered(fields.has("match_unfiltered"))
          .postFilter(message -> true);
    }
    if (fields.has("credit")) {
      builder.flow().initialCredits(fields.get("credit").getAsInt());
    }
    consumer = builder.messageHandler(this::add).build();
  }

  /** All messages so far, once there are so many: stream, offset and body of each. */
  List<Object[]> take(int count) throws InterruptedException {
    long end = System.nanoTime() + Peer.STEP.toNanos();
    synchronized (taken) {
      while (taken.size() < count && System.nanoTime() < end) {
        taken.wait(100);
      }
      return new ArrayList<>(taken);
    }
  }

  /** Store an offset, and wait until the server has it. */
  void store(long offset) throws InterruptedException {
    store(consumer, offset);
  }

  /** Store how far it came in each stream in which it is active. */
  void storeAll() throws InterruptedException {
    for (Map.Entry<String, Consumer> active : ofStream.entrySet()) {
      storeReached(active.getValue(), active.getKey());
    }
  }

  long stored() {
    return consumer.storedOffset();
  }

  void close() {
    consumer.close();
  }

  private void add(MessageHandler.Context context, Message message) {
    String body = new String(message.getBodyAsBinary(), StandardCharsets.UTF_8);
    synchronized (taken) {
      taken.add(new Object[] {context.stream(), context.offset(), body});
      last.put(context.stream(), context.offset());
      taken.notifyAll();
    }
  }

  /** Whoever becomes active goes on behind what the group stored, and stores how far it came when it steps down. */
  private OffsetSpecification updated(ConsumerUpdateListener.Context context) {
    String stream = context.stream();
    told.add(name, context.isActive() ? "active" : "passive", stream);
    if (context.isActive()) {
      ofStream.put(stream, context.consumer());
      try {
        return OffsetSpecification.offset(context.consumer().storedOffset() + 1);
      } catch (NoOffsetException none) {
        return OffsetSpecification.first();
      }
    }
    ofStream.remove(stream);
    try {
      storeReached(context.consumer(), stream);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
    return null;
  }

  private void storeReached(Consumer consumer, String stream) throws InterruptedException {
    Long reached;
    synchronized (taken) {
      reached = last.get(stream);
    }
    if (reached != null) {
      store(consumer, reached);
    }
  }

  private static void store(Consumer consumer, long offset) throws InterruptedException {
    consumer.store(offset);
    long end = System.nanoTime() + Peer.STEP.toNanos();
    while (stored(consumer) != offset && System.nanoTime() < end) {
      Thread.sleep(20);
    }
  }

  private static long stored(Consumer consumer) {
    try {
      return consumer.storedOffset();
    } catch (NoOffsetException none) {
      return -1;
    }
  }

  private OffsetSpecification offset() {
    JsonElement given = fields.get("offset");
    if (given.isJsonObject()) {
      JsonObject value = given.getAsJsonObject();
      return value.has("offset")
          ? OffsetSpecification.offset(value.get("offset").getAsLong())
          : OffsetSpecification.timestamp(value.get("timestamp").getAsLong());
    }
    switch (given.getAsString()) {
      case "first":
        return OffsetSpecification.first();
      case "last":
        return OffsetSpecification.last();
      default:
        return OffsetSpecification.next();
    }
  }
}
