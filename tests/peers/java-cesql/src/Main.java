import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import io.cloudevents.CloudEvent;
import io.cloudevents.core.builder.CloudEventBuilder;
import io.cloudevents.sql.EvaluationException;
import io.cloudevents.sql.EvaluationRuntime;
import io.cloudevents.sql.ParseException;
import io.cloudevents.sql.Parser;
import io.cloudevents.sql.Result;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.util.Map;

/** Evaluates expressions in CloudEvents SQL with the SDK for Java: one JSON object a line, and one for an answer. */
public final class Main {
    private static final Gson JSON = new GsonBuilder().serializeNulls().create();

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        var answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (var line = lines.readLine(); line != null; line = lines.readLine()) {
            var asked = JSON.fromJson(line, JsonObject.class);
            var event = eventOf(asked.getAsJsonObject("event"));
            var seen = new JsonArray();
            for (JsonElement text : asked.getAsJsonArray("expressions")) {
                seen.add(outcome(text.getAsString(), event));
            }
            var answer = new JsonObject();
            answer.add("seen", seen);
            answers.println(JSON.toJson(answer));
        }
    }

    private static JsonObject outcome(String text, CloudEvent event) {
        var told = new JsonObject();
        var kinds = new JsonArray();
        told.add("errors", kinds);
        try {
            Result result = Parser.parseDefault(text).evaluate(EvaluationRuntime.getDefault(), event);
            told.add("value", JSON.toJsonTree(result.value()));
            for (EvaluationException cause : result.causes()) {
                kinds.add(cause.getKind().name());
            }
        } catch (ParseException exception) {
            kinds.add("PARSE");
        } catch (RuntimeException exception) {
            kinds.add("CRASH " + exception);
        }
        return told;
    }

    private static CloudEvent eventOf(JsonObject attributes) {
        var builder = CloudEventBuilder.v1();
        for (Map.Entry<String, JsonElement> attribute : attributes.entrySet()) {
            JsonPrimitive value = attribute.getValue().getAsJsonPrimitive();
            switch (attribute.getKey()) {
                case "specversion" -> { }
                case "id" -> builder.withId(value.getAsString());
                case "source" -> builder.withSource(URI.create(value.getAsString()));
                case "type" -> builder.withType(value.getAsString());
                case "subject" -> builder.withSubject(value.getAsString());
                case "time" -> builder.withTime(OffsetDateTime.parse(value.getAsString()));
                default -> extend(builder, attribute.getKey(), value);
            }
        }
        return builder.build();
    }

    private static void extend(CloudEventBuilder builder, String name, JsonPrimitive value) {
        if (value.isBoolean()) {
            builder.withExtension(name, value.getAsBoolean());
        } else if (value.isNumber()) {
            builder.withExtension(name, Integer.valueOf(value.getAsInt()));
        } else {
            builder.withExtension(name, value.getAsString());
        }
    }
}
