/** Children by ProcessBuilder, several at a time, with pipes in and out. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class Work {
    static long ask(int number) throws Exception {
        Process child = new ProcessBuilder("awk", "{ print $1 * $1 }").redirectErrorStream(true).start();
        try (OutputStreamWriter in = new OutputStreamWriter(child.getOutputStream())) {
            in.write(number + "\n");
        }
        try (BufferedReader out = new BufferedReader(new InputStreamReader(child.getInputStream()))) {
            long square = Long.parseLong(out.readLine().trim());
            if (child.waitFor() != 0) throw new IllegalStateException("exit " + child.exitValue());
            return square;
        }
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        for (int turn = 0; turn < 200; turn++) {
            List<Future<Long>> squares = new ArrayList<>();
            for (int number = 0; number < 8; number++) {
                int asked = turn * 8 + number;
                squares.add(pool.submit(() -> ask(asked)));
            }
            long sum = 0;
            for (Future<Long> square : squares) sum += square.get();
            System.out.println(turn + " " + sum);
        }
        pool.shutdown();
    }
}
