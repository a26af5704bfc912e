import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Submits the statements of a file, separated by semicolons, to the cluster of a configuration folder. The last one is
 * the job, which continues when this program ends.
 */
public final class Job {
    public static void main(String[] args) throws Exception {
        var configuration = GlobalConfiguration.loadConfiguration(args[0]);
        var settings = EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(configuration).build();
        var tables = TableEnvironment.create(settings);
        for (String statement : Files.readString(Path.of(args[1])).split(";")) {
            if (!statement.isBlank()) {
                var result = tables.executeSql(statement);
                result.getJobClient().ifPresent(job -> System.out.println("Job ID: " + job.getJobID()));
            }
        }
        System.exit(0);
    }
}
