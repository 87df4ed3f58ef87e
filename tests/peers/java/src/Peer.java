import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.rabbitmq.stream.BackOffDelayPolicy;
import com.rabbitmq.stream.ByteCapacity;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.EnvironmentBuilder;
import com.rabbitmq.stream.NoOffsetException;
import com.rabbitmq.stream.Resource;
import com.rabbitmq.stream.StreamCreator;
import com.rabbitmq.stream.StreamStats;
import com.rabbitmq.stream.sasl.DefaultSaslConfiguration;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.StreamSupport;

/** An environment of the client, with the producers and consumers that were asked for, by name. */
final class Peer {

  static final Duration STEP = Duration.ofSeconds(20);

  private Environment environment;
  private final Map<String, Producing> producers = new HashMap<>();
  private final Map<String, Consuming> consumers = new HashMap<>();
  private final Told told = new Told();

  Map<String, Main.Command> commands() {
    Map<String, Main.Command> commands = new HashMap<>();
    commands.put("connect", this::connect);
    commands.put("create", this::create);
    commands.put("delete", this::delete);
    commands.put("exists", fields -> environment.streamExists(text(fields, "stream")));
    commands.put("stats", this::stats);
    commands.put("producer", this::producer);
    commands.put("last_id", fields -> producers.get(text(fields, "of")).lastId());
    commands.put("send", fields -> producers.get(text(fields, "to")).send(fields));
    commands.put("flood", fields -> producers.get(text(fields, "to")).flood());
    commands.put("flooded", fields -> producers.get(text(fields, "to")).flooded());
    commands.put("consumer", this::consumer);
    commands.put("take", fields -> consumers.get(text(fields, "of")).take(fields.get("count").getAsInt()));
    commands.put("store", this::store);
    commands.put("stored", this::stored);
    commands.put("told", fields -> told.await(fields.get("count").getAsInt()));
    commands.put("close", this::close);
    commands.put("disconnect", this::disconnect);
    return commands;
  }

  private Object connect(JsonObject fields) throws Exception {
    Duration step = Duration.ofMillis(200);
    EnvironmentBuilder builder =
        Environment.builder()
            .host(text(fields, "host"))
            .port(fields.get("port").getAsInt())
            .rpcTimeout(STEP)
            .recoveryBackOffDelayPolicy(BackOffDelayPolicy.fixed(step))
            .topologyUpdateBackOffDelayPolicy(
                BackOffDelayPolicy.fixedWithInitialDelay(step, step, Duration.ofSeconds(2)));
    if (fields.has("user")) {
      builder.username(text(fields, "user")).password(text(fields, "password"));
    }
    if (fields.has("vhost")) {
      builder.virtualHost(text(fields, "vhost"));
    }
    if ("SCRAM-SHA-256".equals(text(fields, "mechanism"))) {
      builder.saslConfiguration(offered -> new Scram());
    } else if (fields.has("mechanism")) {
      builder.saslConfiguration(new DefaultSaslConfiguration(text(fields, "mechanism")));
    }
    if (fields.has("authority")) {
      SslContextBuilder tls = SslContextBuilder.forClient().trustManager(new File(text(fields, "authority")));
      if (fields.has("certificate")) {
        tls.keyManager(new File(text(fields, "certificate")), new File(text(fields, "key")));
      }
      builder.tls().sslContext(tls.build());
    }
    environment = builder.build();
    return null;
  }

  private Object create(JsonObject fields) {
    StreamCreator creator = environment.streamCreator().name(text(fields, "stream"));
    if (fields.has("max_age_s")) {
      creator.maxAge(Duration.ofSeconds(fields.get("max_age_s").getAsLong()));
    }
    if (fields.has("max_length_bytes")) {
      creator.maxLengthBytes(ByteCapacity.B(fields.get("max_length_bytes").getAsLong()));
    }
    if (fields.has("segment_bytes")) {
      creator.maxSegmentSizeBytes(ByteCapacity.B(fields.get("segment_bytes").getAsLong()));
    }
    if (fields.has("filter_bytes")) {
      creator.filterSize(fields.get("filter_bytes").getAsInt());
    }
    if (fields.has("partitions")) {
      creator.superStream().partitions(fields.get("partitions").getAsInt());
    }
    if (fields.has("keys")) {
      creator.superStream().bindingKeys(texts(fields, "keys"));
    }
    creator.create();
    return null;
  }

  private Object delete(JsonObject fields) {
    if (fields.has("super")) {
      environment.deleteSuperStream(text(fields, "super"));
    } else {
      environment.deleteStream(text(fields, "stream"));
    }
    return null;
  }

  private Object stats(JsonObject fields) {
    StreamStats stats = environment.queryStreamStats(text(fields, "stream"));
    Map<String, Long> seen = new HashMap<>();
    try {
      seen.put("first_offset", stats.firstOffset());
      seen.put("committed_chunk_id", stats.committedChunkId());
      seen.put("committed_offset", stats.committedOffset());
    } catch (NoOffsetException empty) {
      seen.clear();
    }
    return seen;
  }

  private Object producer(JsonObject fields) {
    String name = text(fields, "as");
    producers.put(name, new Producing(environment, fields, listener(name)));
    return null;
  }

  private Object consumer(JsonObject fields) {
    String name = text(fields, "as");
    Consuming consumer = new Consuming(fields, told);
    consumers.put(name, consumer);
    consumer.subscribe(environment, listener(name));
    return null;
  }

  private Object store(JsonObject fields) throws Exception {
    Consuming consumer = consumers.get(text(fields, "of"));
    if (fields.has("offset")) {
      consumer.store(fields.get("offset").getAsLong());
    } else {
      consumer.storeAll();
    }
    return null;
  }

  private Object stored(JsonObject fields) {
    try {
      return consumers.get(text(fields, "of")).stored();
    } catch (NoOffsetException none) {
      return null;
    }
  }

  private Object close(JsonObject fields) {
    String name = text(fields, "of");
    if (producers.containsKey(name)) {
      producers.get(name).close();
    } else {
      consumers.get(name).close();
    }
    return null;
  }

  private Object disconnect(JsonObject fields) {
    environment.close();
    return null;
  }

  private Resource.StateListener listener(String name) {
    return context -> {
      boolean again = context.previousState() == Resource.State.RECOVERING;
      String state = context.currentState().name().toLowerCase(Locale.ROOT);
      told.add(name, again && state.equals("open") ? "recovered" : state, "");
    };
  }

  static String text(JsonObject fields, String name) {
    return fields.has(name) ? fields.get(name).getAsString() : null;
  }

  static String[] texts(JsonObject fields, String name) {
    List<String> found = new ArrayList<>();
    StreamSupport.stream(fields.getAsJsonArray(name).spliterator(), false)
        .map(JsonElement::getAsString)
        .forEach(found::add);
    return found.toArray(new String[0]);
  }
}
