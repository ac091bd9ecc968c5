import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;

/** A server with MongoDB's wire protocol on a free port of this machine, which it prints; ends with its stdin. */
public final class MongoServers {
    public static void main(String[] arguments) throws Exception {
        MongoServer server = new MongoServer(new MemoryBackend());
        System.out.println(server.bind().getPort());
        System.out.flush();
        while (System.in.read() >= 0) { }
        server.shutdownNow();
    }
}
