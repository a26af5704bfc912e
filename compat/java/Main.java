package pole.compat;

/**
 * Runs one program against servers that somebody else started and disturbs.
 *
 * <p>In: its name and where the servers are. Out: a last line "ok: ..." and exit code 0, or what was wrong and 1.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        try (Stage stage = new Stage(args[1])) {
            String said = switch (args[0]) {
                case "latch" -> Latch.run(stage);
                case "selector" -> Selector.run(stage);
                case "mutex" -> Mutex.run(stage);
                case "read-write" -> ReadWrite.run(stage);
                case "barrier" -> Barrier.run(stage);
                case "counter" -> Counter.run(stage);
                case "cache" -> Cache.run(stage);
                case "failover" -> Failover.run(stage);
                default -> throw new IllegalArgumentException("no program called " + args[0]);
            };
            System.out.println("ok: " + said);
        } catch (Throwable why) {
            why.printStackTrace();
            // Threads of clients may still run.
            System.exit(1);
        }
        System.exit(0);
    }
}
