package pole.compat;

/**
 * Runs one program against servers that the caller has started and into which the caller injects faults.
 *
 * <p>The arguments are the name of the program and the connect string. On success, the last line is "ok: ..." and the exit code 0;
 * on failure, the exit code is 1 and a stack trace is printed.
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
                case "holder" -> Holder.run(stage);
                case "sasl" -> Sasl.run(stage);
                case "sasl-required" -> Sasl.runRequired(stage);
                case "kerberos" -> Kerberos.run(stage);
                case "kerberos-required" -> Kerberos.runRequired(stage);
                default -> throw new IllegalArgumentException("no program called " + args[0]);
            };
            System.out.println("ok: " + said);
        } catch (Throwable why) {
            why.printStackTrace();
            // Client threads may still be running.
            System.exit(1);
        }
        System.exit(0);
    }
}
