import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Does what the lines on standard input say with protonj2, and answers each by one line of JSON. */
public final class Main {

  /** One thing that can be asked for; what it gives is the answer. */
  interface Command {
    Object run(JsonObject fields) throws Exception;
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err);
    Gson gson = new Gson();
    Map<String, Command> commands = new Peer().commands();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonObject fields = JsonParser.parseString(line).getAsJsonObject();
      JsonObject answer = new JsonObject();
      try {
        Object seen = commands.get(fields.get("do").getAsString()).run(fields);
        answer.add("seen", gson.toJsonTree(seen));
      } catch (Exception error) {
        answer.addProperty("error", String.valueOf(error.getMessage()));
        answer.addProperty("code", error.getClass().getSimpleName());
      }
      answers.println(gson.toJson(answer));
      answers.flush();
    }
    // The client's threads would keep a program alive that did not close all it made.
    System.exit(0);
  }
}
