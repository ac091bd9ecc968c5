package ottla.pipeline;

import com.globalmentor.apache.hadoop.fs.BareLocalFileSystem;
import java.io.File;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.Path;

/**
 * Local files where a commit of a lake never takes another's place.
 *
 * A commit to an Iceberg table of a HadoopCatalog, or to a Delta table, is a file that gets the next number as its
 * name, by a rename that has to fail where that name is taken. Local renames don't: Iceberg and Delta look first, and
 * hold a lock of their own JVM. Of two JVMs (one that was frozen between look and rename, and its successor) the later
 * one replaced the commit of the other, whose rows were lost. Here such names are made as a second name of the file,
 * which fails in one step. The file system that can't is used as before.
 */
public class LakeCommits extends BareLocalFileSystem {
    private static final Pattern COMMIT =
        Pattern.compile(".*/(_delta_log/[0-9]{20}[.]json|metadata/v[0-9]+[^/]*[.]metadata[.]json([.]gz)?)");

    public boolean rename(Path source, Path target) throws IOException {
        if (!COMMIT.matcher(target.toUri().getPath()).matches()) {
            return super.rename(source, target);
        }
        File from = pathToFile(source);
        File to = pathToFile(target);
        try {
            Files.createLink(to.toPath(), from.toPath());
        } catch (FileAlreadyExistsException taken) {
            return false;
        } catch (FileSystemException impossible) {
            return super.rename(source, target);
        } catch (UnsupportedOperationException impossible) {
            return super.rename(source, target);
        }
        delete(source, false);
        return true;
    }
}
