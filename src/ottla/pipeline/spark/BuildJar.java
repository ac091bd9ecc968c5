import java.io.File;
import java.io.FileOutputStream;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarOutputStream;
import java.util.zip.ZipEntry;

import org.codehaus.commons.compiler.util.resource.FileResource;
import org.codehaus.commons.compiler.util.resource.MapResourceCreator;
import org.codehaus.commons.compiler.util.resource.Resource;
import org.codehaus.janino.ClassLoaderIClassLoader;
import org.codehaus.janino.Compiler;

/**
 * Compiles ottla's classes for Spark's JVM into a jar: the jar, then the sources. jvm_classes.py runs it.
 *
 * Janino can compile what the JVM then refuses (a VerifyError for two catches in a loop, for one), and the JVM looks
 * at a class only when it is used. So each class is loaded here, and a jar with a wrong one is not made.
 */
public final class BuildJar {
    /** The oldest class files in which the static methods of interfaces can be called. */
    private static final int CLASS_FILES_OF_JAVA = 8;

    public static void main(String[] arguments) throws Exception {
        Map classes = new HashMap();
        Resource[] sources = new Resource[arguments.length - 1];
        for (int i = 0; i < sources.length; i++) {
            sources[i] = new FileResource(new File(arguments[i + 1]));
        }
        Compiler compiler = new Compiler();
        compiler.setIClassLoader(new ClassLoaderIClassLoader(Compiler.class.getClassLoader()));
        compiler.setTargetVersion(CLASS_FILES_OF_JAVA);
        compiler.setDebugSource(true);
        compiler.setDebugLines(true);
        compiler.setClassFileCreator(new MapResourceCreator(classes));
        compiler.compile(sources);
        verify(classes);
        JarOutputStream jar = new JarOutputStream(new FileOutputStream(arguments[0]));
        for (Iterator entries = new TreeMap(classes).entrySet().iterator(); entries.hasNext();) {
            Map.Entry entry = (Map.Entry) entries.next();
            jar.putNextEntry(new ZipEntry((String) entry.getKey()));
            jar.write((byte[]) entry.getValue());
            jar.closeEntry();
        }
        jar.close();
    }

    private static void verify(Map classes) throws Exception {
        ClassLoader loader = new Loader(classes);
        for (Iterator names = classes.keySet().iterator(); names.hasNext();) {
            String file = (String) names.next();
            Class.forName(file.substring(0, file.length() - ".class".length()).replace('/', '.'), true, loader);
        }
    }

    private static final class Loader extends ClassLoader {
        private final Map classes;

        Loader(Map classes) {
            super(Compiler.class.getClassLoader());
            this.classes = classes;
        }

        protected Class findClass(String name) throws ClassNotFoundException {
            byte[] bytes = (byte[]) classes.get(name.replace('.', '/') + ".class");
            if (bytes == null) {
                throw new ClassNotFoundException(name);
            }
            return defineClass(name, bytes, 0, bytes.length);
        }
    }
}
