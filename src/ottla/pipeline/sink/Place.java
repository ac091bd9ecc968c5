package ottla.pipeline;

/** A task's place: its batch, query and run, its number, and the number of shuffle partitions. */
public final class Place {
    final long batch;
    final String queryId;
    final String runId;
    final int task;
    final String shufflePartitions;

    public Place(long batch, String queryId, String runId, int task, String shufflePartitions) {
        this.batch = batch;
        this.queryId = queryId;
        this.runId = runId;
        this.task = task;
        this.shufflePartitions = shufflePartitions;
    }
}
