import org.apache.kafka.tools.streams.StreamsGroupCommand;

/** Runs kafka-streams-groups for each argument, which holds the words of one command. */
public class StreamsGroupTool {
    public static void main(String[] commands) {
        for (String command : commands) {
            System.out.println("$ " + command);
            StreamsGroupCommand.execute(command.split(" "));
        }
    }
}
