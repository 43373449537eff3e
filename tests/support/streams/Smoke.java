import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.tests.SmokeTestClient;
import org.apache.kafka.streams.tests.SmokeTestDriver;

/**
 * Kafka's own smoke test of Kafka Streams. Arguments: "drive", bootstrap servers and for how many
 * seconds to produce; it then prints whether all results are exact. Or "process", bootstrap servers
 * and a state directory; it prints RUNNING, and ends when standard input ends.
 */
public class Smoke {
    private static final int KEYS = 10;
    private static final int RECORDS_OF_A_KEY = 100;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("drive")) {
            drive(arguments[1], Duration.ofSeconds(Long.parseLong(arguments[2])));
        } else {
            process(arguments[1], arguments[2]);
        }
    }

    private static void drive(String bootstrap, Duration duration) {
        Map<String, Set<Integer>> sent =
            SmokeTestDriver.generate(bootstrap, KEYS, RECORDS_OF_A_KEY, duration);
        SmokeTestDriver.VerificationResult result =
            SmokeTestDriver.verify(bootstrap, sent, RECORDS_OF_A_KEY, true);
        System.out.println(result.passed() ? "PASSED" : result.result());
    }

    private static void process(String bootstrap, String directory) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory);
        config.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        // Never within the test: the lag of repartition topics counts their records.
        config.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 600_000);
        config.put(
            StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
            BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        SmokeTestClient client = new SmokeTestClient("smoke");
        client.start(config);
        System.out.println("RUNNING");
        while (System.in.read() != -1) { }
        client.close();
    }
}
