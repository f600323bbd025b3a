/* Threads, maps, garbage, a lock that is waited on, and a line for each round. */
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class Work {
    private static final int ROUNDS = 60 * Integer.parseInt(System.getenv().getOrDefault("VICTIM_TIMES", "1"));
    private static final int THREADS = 3, ENTRIES = 5000;

    private static long piece(long seed) {
        HashMap<Integer, String> table = new HashMap<>();
        long state = seed;
        for (int i = 0; i < ENTRIES; i++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            table.put((int) (state >>> 44), Long.toString(state, 36));
        }
        long sum = 0;
        for (var entry : new TreeMap<>(table).entrySet())
            sum = sum * 31 + entry.getKey() + entry.getValue().hashCode();
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        List<byte[]> ballast = new ArrayList<>();
        long sum = 0;
        for (int round = 0; round < ROUNDS; round++) {
            List<Future<Long>> pieces = new ArrayList<>();
            for (int thread = 0; thread < THREADS; thread++) {
                final long seed = round * 31L + thread;
                pieces.add(pool.submit(() -> piece(seed)));
            }
            for (Future<Long> piece : pieces)
                sum = sum * 17 + piece.get();
            ballast.add(new byte[200_000]);
            if (ballast.size() > 10)
                ballast.remove(0);
            long start = System.nanoTime();
            Thread.sleep(15);
            if (System.nanoTime() - start < 15_000_000L)
                throw new IllegalStateException("a sleep was too short");
            System.out.println("round " + round + " sum " + sum);
        }
        pool.shutdown();
        System.out.println("end " + sum);
    }
}
