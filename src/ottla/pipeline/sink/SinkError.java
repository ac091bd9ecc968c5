package ottla.pipeline;

/** The sink can't go on; the message says which query, batch and unit, what failed, and what to do. */
public final class SinkError extends RuntimeException {

    public SinkError(String message) {
        super(message);
    }
}
