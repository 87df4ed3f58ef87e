import com.rabbitmq.stream.sasl.CredentialsProvider;
import com.rabbitmq.stream.sasl.SaslMechanism;
import com.rabbitmq.stream.sasl.UsernamePasswordCredentialsProvider;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.UUID;
import javax.crypto.Mac;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.crypto.spec.SecretKeySpec;

/** SCRAM-SHA-256 (RFC 7677), which the client leaves to its users: each challenge asks for the next message. */
final class Scram implements SaslMechanism {

  private String first;
  private byte[] expected;

  @Override
  public String getName() {
    return "SCRAM-SHA-256";
  }

  @Override
  public byte[] handleChallenge(byte[] challenge, CredentialsProvider credentials) {
    UsernamePasswordCredentialsProvider user = (UsernamePasswordCredentialsProvider) credentials;
    String said = challenge == null ? "" : new String(challenge, StandardCharsets.UTF_8);
    try {
      if (first == null) {
        first = "n=" + user.getUsername() + ",r=" + UUID.randomUUID();
        return bytes("n,," + first);
      }
      if (expected == null) {
        return bytes(proof(said, user.getPassword()));
      }
      if (!said.equals("v=" + Base64.getEncoder().encodeToString(expected))) {
        throw new IllegalStateException("the server does not know the password");
      }
      return new byte[0];
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException(error);
    }
  }

  /** The client's last message; what the server is to say of it is kept. */
  private String proof(String said, String password) throws GeneralSecurityException {
    String[] parts = said.split(",", 3);
    byte[] salt = Base64.getDecoder().decode(parts[1].substring(2));
    int rounds = Integer.parseInt(parts[2].substring(2));
    PBEKeySpec spec = new PBEKeySpec(password.toCharArray(), salt, rounds, 256);
    byte[] salted = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256").generateSecret(spec).getEncoded();
    byte[] clientKey = hmac(salted, "Client Key");
    byte[] storedKey = MessageDigest.getInstance("SHA-256").digest(clientKey);
    String last = "c=biws," + parts[0];
    String all = first + "," + said + "," + last;
    byte[] signature = hmac(storedKey, all);
    byte[] proof = new byte[clientKey.length];
    for (int at = 0; at < proof.length; at++) {
      proof[at] = (byte) (clientKey[at] ^ signature[at]);
    }
    expected = hmac(hmac(salted, "Server Key"), all);
    return last + ",p=" + Base64.getEncoder().encodeToString(proof);
  }

  private static byte[] hmac(byte[] key, String text) throws GeneralSecurityException {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(key, "HmacSHA256"));
    return mac.doFinal(bytes(text));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
