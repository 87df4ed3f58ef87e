import java.util.ArrayList;
import java.util.List;

/** What the client told by itself, in its order: about whom, what, and of which stream. */
final class Told {

  private final List<String[]> events = new ArrayList<>();

  synchronized void add(String name, String event, String stream) {
    events.add(new String[] {name, event, stream});
    notifyAll();
  }

  /** All there is, once there is so much. */
  synchronized List<String[]> await(int count) throws InterruptedException {
    long end = System.nanoTime() + Peer.STEP.toNanos();
    while (events.size() < count && System.nanoTime() < end) {
      wait(100);
    }
    return new ArrayList<>(events);
  }
}
