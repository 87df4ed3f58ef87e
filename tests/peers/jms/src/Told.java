import java.util.ArrayList;
import java.util.List;

/** What the client told by itself, in its order: about whom, what, and with which words. */
final class Told {

  private final List<String[]> events = new ArrayList<>();

  synchronized void add(String name, String event, String words) {
    events.add(new String[] {name, event, words});
    notifyAll();
  }

  /** All there is, once there is so much. */
  synchronized List<String[]> await(int count) throws InterruptedException {
    long end = System.nanoTime() + Peer.STEP_MS * 1_000_000;
    while (events.size() < count && System.nanoTime() < end) {
      wait(100);
    }
    return new ArrayList<>(events);
  }
}
