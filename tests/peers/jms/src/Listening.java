import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.net.URI;
import org.apache.qpid.jms.JmsConnectionListener;
import org.apache.qpid.jms.message.JmsInboundMessageDispatch;

/** Tells when a connection is lost, when it is there again, and what the server ends. */
final class Listening implements JmsConnectionListener {

  private final String name;
  private final Told told;

  Listening(String name, Told told) {
    this.name = name;
    this.told = told;
  }

  @Override
  public void onConnectionEstablished(URI server) {}

  @Override
  public void onConnectionFailure(Throwable error) {}

  @Override
  public void onConnectionInterrupted(URI server) {
    told.add(name, "interrupted", "");
  }

  @Override
  public void onConnectionRestored(URI server) {
    told.add(name, "restored", "");
  }

  @Override
  public void onInboundMessage(JmsInboundMessageDispatch envelope) {}

  @Override
  public void onSessionClosed(Session session, Throwable cause) {
    told.add(name, "session closed", String.valueOf(cause));
  }

  @Override
  public void onConsumerClosed(MessageConsumer consumer, Throwable cause) {
    told.add(name, "consumer closed", String.valueOf(cause));
  }

  @Override
  public void onProducerClosed(MessageProducer producer, Throwable cause) {
    told.add(name, "producer closed", String.valueOf(cause));
  }
}
