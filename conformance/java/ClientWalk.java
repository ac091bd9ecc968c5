/** Walks through what the Java client does: the producer, the consumer, the administration, security, what is new in 4. */
public final class ClientWalk {
    public static void main(String[] arguments) throws Exception {
        Walk walk = new Walk(arguments[0]);
        ProducerSteps.add(walk);
        ConsumerSteps.add(walk);
        AdminSteps.add(walk);
        SecuritySteps.add(walk);
        if (arguments.length > 1) {
            Class.forName(arguments[1]).getDeclaredMethod("add", Walk.class).invoke(null, walk);
        }
        walk.go();
        // Threads of steps that hang must not hold up the end.
        Runtime.getRuntime().halt(0);
    }
}
